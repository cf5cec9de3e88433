// Graphs of the fake CUDA runtime: what a capture recorded, with the pointers as they were.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "cuda_emu/fake_machine.h"

namespace hs::cuda_emu {

struct GraphNode {
  Work work;
  int device = 0;
  uint64_t stream = 0;
  std::vector<size_t> after;  // earlier nodes of the same graph
  cudaGraphNode_t handle = nullptr;
};

struct Graph {
  int device = 0;
  std::vector<GraphNode> nodes;
};

struct GraphExec {
  Graph graph;
  int device = 0;
  OperationPtr last_launch;  // launches of one executable graph run one after another
};

struct Capture {
  Graph graph;
  uint64_t origin = 0;  // the number of the stream where it began
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id owner;
  bool invalid = false;
  bool ended = false;
  std::vector<StreamPtr> streams;  // that take part
};

}  // namespace hs::cuda_emu
