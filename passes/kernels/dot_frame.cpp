#include "passes/kernels/dot_frame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

namespace braid::kernels {

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

std::string all_of(const std::vector<std::string>& conditions) {
  std::string text;
  for (const std::string& c : conditions) {
    if (!c.empty()) text += (text.empty() ? "" : " && ") + c;
  }
  return text;
}

Product product_of(const ir::Graph& body, const ir::Op& dot) {
  const TensorType& result = body.type(dot.result);
  const TensorType& lhs = body.type(dot.operands[0]);
  const auto& attr = std::get<ir::DotAttr>(dot.attrs);
  const std::vector<int64_t> extents = result.shape.extents();
  const size_t rank = extents.size();
  Product p;
  p.m = extents[rank - 2];
  p.n = extents[rank - 1];
  p.k = lhs.shape.extents()[attr.ta ? rank - 2 : rank - 1];
  for (size_t i = 0; i + 2 < rank; ++i) p.batch *= extents[i];
  p.operands = lhs.dtype;
  p.result = result.dtype;
  p.tf32 = attr.tf32;
  if (std::max({p.batch, p.m, p.n, p.k}) > std::numeric_limits<int32_t>::max() / 2) {
    throw TooLarge("its matrix product has an axis of more than 2^30 elements");
  }
  return p;
}

DotFrame::DotFrame(const ir::Graph& body, const Signature& signature, const ir::Op& dot,
                   const std::vector<Sink>& sinks)
    : body_(body),
      signature_(signature),
      dot_(dot),
      writer_(body, signature, pool_),
      product_(product_of(body, dot)),
      sinks_(sinks) {
  const std::vector<int64_t> extents = body.type(dot.result).shape.extents();
  const Index batch = pool_.variable("batch", product_.batch);
  batch_at_ = delinearize(pool_, batch, std::span(extents).first(extents.size() - 2));
}

At DotFrame::operand_at(char outer, Index at_outer, Index at_k) const {
  const auto& attr = std::get<ir::DotAttr>(dot_.attrs);
  const bool k_last = outer == 'm' ? !attr.ta : attr.tb;
  At at = batch_at_;
  at.push_back(k_last ? at_outer : at_k);
  at.push_back(k_last ? at_k : at_outer);
  return at;
}

std::vector<PlacedSink> DotFrame::placed(const At& result_at) {
  const TensorType& result = body_.type(dot_.result);
  Elements elements(body_, pool_);
  elements.set(dot_.result, result_at);
  elements.propagate();
  std::vector<PlacedSink> placed;
  for (const Sink& s : sinks_) {
    const TensorType& type = body_.type(s.value);
    if (!s.stores() && result.shape.numel() != 1) {
      throw Refusal{"it sends or decides something, and its matrix product has several elements"};
    }
    if (type.shape.numel() != result.shape.numel()) {
      throw Refusal{fmt::format("its result {} has other elements than the matrix product {}",
                                to_string(type), to_string(result))};
    }
    const At* at = elements.find(s.value);
    const Index linear = linearize(pool_, result_at, result.shape.extents());
    placed.push_back({s, at ? *at : delinearize(pool_, linear, type.shape.extents())});
  }
  return placed;
}

void DotFrame::write_head(int64_t bm, int64_t bn, int64_t bk, int64_t threads, int64_t cluster) {
  const int64_t tiles_m = divide_up(product_.m, bm), tiles_n = divide_up(product_.n, bn);
  writer_.line(
      fmt::format("constexpr int M = {}, N = {}, K = {};", product_.m, product_.n, product_.k));
  writer_.line(
      fmt::format("constexpr int BM = {}, BN = {}, BK = {};  // a block's tile", bm, bn, bk));
  writer_.line(fmt::format("constexpr int THREADS = {};", threads));
  writer_.line("const int thread = threadIdx.x;");
  if (cluster > 1) {
    writer_.line(fmt::format("const int rank = blockIdx.x % {};  // in the cluster", cluster));
    writer_.line(fmt::format("const int tile = blockIdx.x / {};", cluster));
  } else {
    writer_.line("const int tile = blockIdx.x;");
  }
  writer_.line(fmt::format("const int n0 = tile % {} * BN;", tiles_n));
  writer_.line(fmt::format("const int m0 = tile / {} % {} * BM;", tiles_n, tiles_m));
  if (product_.batch > 1) {
    writer_.line(fmt::format("const int batch = tile / {};", tiles_m * tiles_n));
  }
}

std::string DotFrame::within(char axis, int64_t block) const {
  const int64_t whole = axis == 'k' ? product_.k : extent(axis);
  return whole % block == 0 ? ""
                            : fmt::format("{} < {}", axis, static_cast<char>(std::toupper(axis)));
}

Emitted DotFrame::finish(std::string_view symbol, int64_t bm, int64_t bn, int64_t threads,
                         int64_t shared_bytes, int64_t cluster) {
  check_in_place(writer_, placed_);
  const int64_t blocks =
      product_.batch * divide_up(product_.m, bm) * divide_up(product_.n, bn) * cluster;
  // One block per SM at least: left to itself, ptxas may spill for the sake of more.
  Emitted e{kernel_text(body_, signature_, symbol, fmt::format("{}, 1", threads), writer_.finish(),
                        cluster),
            launch_of(signature_, blocks, static_cast<uint32_t>(threads))};
  e.launch.shared_bytes = static_cast<uint32_t>(shared_bytes);
  return e;
}

}  // namespace braid::kernels
