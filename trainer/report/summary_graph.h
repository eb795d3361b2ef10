// A model as the graph that TensorBoard draws. PURE.
#pragma once

#include "trainer/model/model.h"
#include "trainer/report/event.pb.h"
#include "trainer/report/summary.h"

namespace trainer {

// One node an operation of the forward pass and the loss, one a variable, each with its device; in
// the order in which values flow.
event::GraphDef MakeGraph(const Model& model, const GraphDevices& devices);

}  // namespace trainer
