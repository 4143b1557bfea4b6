// A model's params from a file of weights: a .safetensors file, or a folder that holds NAME.npy
// files (a '/' in a name is a sub-folder) and .safetensors files (the parts of a large model).
//
// Names match by full path; '/' and '.' are the same there, so that param "layer.0/w.weight" and
// tensor "layer.0.w.weight" are one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/diagnostic.hpp"
#include "ir/tensor.hpp"

namespace braid {

class Store;
struct Program;
namespace ir {
class Graph;
}

/// A param as a file of weights must fit it.
struct WeightSpec {
  std::string name;
  DType dtype;
  std::vector<int64_t> extents;  // -1: symbolic and without a value, so anything fits
  bool may_miss = false;         // state that the graph writes and that begins as zeros or ones
};
std::vector<WeightSpec> weight_specs(const Program& program);
/// Types may be symbolic.
std::vector<WeightSpec> weight_specs(const ir::Graph& graph);

struct WeightsFrom {
  std::string path;
  /// Where the model names the file; unknown if the caller does.
  Place place{};
  /// Tensors that the model does not use; '*' stands for any characters.
  std::vector<std::string> ignore{};
  /// Params that get their values elsewhere, so the file need not have them.
  std::vector<std::string> given{};
};

/// Throws Error unless every param has exactly one tensor of its shape and of its kind of dtype
/// (float, integer or b1) and every tensor is a param's or ignored: E0112 missing, E0113 left over,
/// E0114 another type, E0115 ambiguous, each with up to ten names. Reads no elements.
void check_weights(const std::vector<WeightSpec>& specs, const WeightsFrom& from);

/// check_weights, then loads every param that the file has into the store, where the program was
/// declared. Elements take the param's dtype; one that does not fit, such as 1e30 in f16, is E0116.
void load_weights(Store& store, const Program& program, const WeightsFrom& from);

/// `from` with the elements of another dtype of the same kind. On failure nothing, and `why` says
/// "element 17 is 1e+30, which f16 cannot hold".
std::optional<HostTensor> convert_elements(HostTensor from, DType to, std::string& why);

}  // namespace braid
