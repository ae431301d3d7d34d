"""The mathematics of the stages, one concept per file.

In reading order:

* from samples to inputs: `intervals` (what left before, and over which intervals inputs act),
  `compensate`, `predict_late`, `extrapolate` with `polynomial`, `sum_inputs`, `excite`, `limit`
  with `ramp`; what inputs may be: `allowed`;
* what is asked for beside the connections: `drive_inputs`, `stimulate`, `shapes`,
  `random_numbers`;
* defects and control: `measure_defects`, `estimate_error`, `control_step`, `control_order`,
  `choose_step`;
* estimated errors: `measure_disturbances`, `estimate_signals`, `closed_loop`;
* what benches made of inputs: `realised`;
* energy: `power_bond`, `mu`, `correct_energy`;
* corrections of outputs: `true_inputs`, `correct_outputs`, `correct_feedthrough`, `correct_model`,
  built by `build_model`, solved by `elimination`, held against a trial by `verification` and
  `follow_corrections`;
* Jacobians: `jacobian` (from A, B, C, D), `probe`, and identified: `identify`, `regression`,
  `square_root`, `past`, `scales`, `trust`.

Stages have the arguments ``(plan, state, given)`` and write the state alone.
"""
