"""Write the log of a session while it runs, and read it.

In reading order:

* at the master: `messages`, `feed` and `recorder_feed` (the columns of a row are in
  `hilrt.step_log`); at gateways: `frame_feed` (CAN frames, sender and receiver);
* the recorder: `recorder` (the loop; it caps the logs of the session's processes), `recording` (one
  log), `gate` (recording around triggers), `logged_frame`;
* the file: `mcap_writer`, `cdr`, `record_file`, `find_log`, `reader` with `notebook`,
  `decimate`, `repair`.
"""
