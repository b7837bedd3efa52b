"""What other projects do, through their public interfaces: each module prints its times as one line of JSON."""
