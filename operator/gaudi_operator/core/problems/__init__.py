"""What keeps pods from serving, and who can mend it.

criteria      the facts that the pods of one revision are judged by, such as the limits of the canary
pod_problems  all checks of a pod, in order; what a revision's pods have in common; whether the revision is the cause
containers    why a container does not start, or ends again and again
learned_plan  whether traffic is what a learned plan was made for
mending       which problems others may mend for a while, and which need a person at once
"""
