"""The report of this instance. Start-up and serving write the report, and the status port returns it.

report_board      the current WarmupReport and its long-poll
bucket_board      the state of each planned bucket
served            the summary of served batches for the report
serving_counters  publishes the counters of serving
"""
