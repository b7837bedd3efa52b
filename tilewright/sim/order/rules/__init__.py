"""What holds in every schedule, whichever accesses race.

barriers           one meeting at a time
mbarriers          made once, and before they are used
remote_accesses    a CTA runs until others have done with its memory
remote_operations  and until operations have
constants          what is read as a constant is not written
"""
