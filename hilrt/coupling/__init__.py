"""The mathematics of the stages, one topic per file.

In reading order:

* from samples to inputs: `intervals` (previous inputs, and the intervals over which inputs act),
  `compensate` (also prediction of late outputs), `extrapolate`, `sum_inputs` (also dither), `limit`
  with `ramp`;
* contributions besides the connections: `drive_inputs`, `stimulate`, `inject_faults`;
* defects and control: `measure_defects`, `control_order`, `choose_step`;
* estimated errors: `measure_disturbances`, `estimate_signals`, `closed_loop`, `open_loop`;
* energy: `power_bond`, `mu`, `adapt_mu`;
* corrections of outputs: `true_inputs`, `correct_outputs` (also by feedthrough), `correct_model`,
  built by `build_model`;
* Jacobians: `jacobian` (from A, B, C, D, or by probing), and identified ones: `identify`,
  `regression`, `past`, `trust`.

Stages have the arguments ``(plan, state, given)`` and write only the state.
"""
