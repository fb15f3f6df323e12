"""Problems that prevent pods from serving, and who can resolve them.

criteria            the facts for judging the pods of one revision, such as canary limits
pod_problems        all checks of a pod in order, problems of a whole revision, and problems caused by the revision
container_problems  containers that cannot start or end repeatedly
claims              pods that wait for PersistentVolumeClaims
spec_fields         the fields of the spec that set the images, claims and limits of a pod
learned_plan        whether live traffic matches the forecast of a learned plan
resolution          which problems others may resolve before a deadline, and which need a user immediately
"""
