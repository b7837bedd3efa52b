"""What holds in every schedule, whichever accesses race.

barriers           one meeting at a time; what the cluster's puts in order
mbarriers          made once, and before they are used
remote_accesses    a CTA has begun before others touch its memory, and runs until they have done
remote_operations  and until operations have
constants          what is read as a constant is not written
"""
