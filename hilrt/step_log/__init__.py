"""What the log of a session has of its macro steps, and what a replay needs of it.

Read in this order: `signals` (the columns of a row) and `gather` (a row from the tables),
`snapshot` (the tables' bytes) and `snapshots` (when they are written), `facts` (everything else
that decides: files, versions, layout).
"""
