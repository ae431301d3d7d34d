"""Content of a session's log about its macro steps, and data for a replay.

Read in this order: `signals` (the columns of a row) and `gather` (a row from the tables),
`snapshot` (the tables' bytes, and when they are written), `facts` (other facts that determine
decisions: files, versions, layout).
"""
