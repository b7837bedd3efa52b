"""Other projects, through their public interfaces: each module prints its times as one line of JSON."""
