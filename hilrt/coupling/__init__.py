"""The mathematics of the stages, one topic per file.

In reading order:

* from samples to inputs: `intervals` (what left before, and over which intervals inputs act),
  `compensate` (and predict late ones), `extrapolate`, `sum_inputs` (and dither), `limit`
  with `ramp`;
* what is added to the connections: `drive_inputs`, `stimulate`, `inject_faults`;
* defects and control: `measure_defects`, `control_order`, `choose_step`;
* estimated errors: `measure_disturbances`, `estimate_signals`, `closed_loop`;
* energy: `power_bond`, `mu`, `adapt_mu`;
* corrections of outputs: `true_inputs`, `correct_outputs` (by feedthrough, too), `correct_model`,
  built by `build_model`;
* Jacobians: `jacobian` (from A, B, C, D, or by trying), and identified: `identify`, `regression`,
  `past`, `trust`.

Stages have the arguments ``(plan, state, given)`` and write only the state.
"""
