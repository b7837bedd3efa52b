"""What users are told: errors, warnings, and the step that is missing. Nothing here decides whether a kernel is right.

words           how threads, elements and fences are named
race            the error of a race, or its warning; do both threads change one place? Then an atomic is missing; a
                barrier that can stand between two accesses, and helps
handover        the step that is missing where threads synchronise by flags, m-barriers or the cluster's barrier; the
                same in compiled code, from what the run has shown; the step between an operation's completion and a
                thread that relies on it; a wait for another phase, or for another m-barrier
rules           errors of operations that may still be under way; warnings for a missing proxy fence; errors of
                barriers, m-barriers and the memory of other CTAs; the error of constants that are written, or its
                warning
"""
