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

DotFrame::Element DotFrame::element(char outer, const Converted& converted) {
  const Index k = pool_.variable("k", product_.k);
  const Index o = pool_.variable(std::string_view(&outer, 1), extent(outer));
  const size_t loads_before = writer_.loads().size();
  writer_.open_branch();
  writer_.open_loop({o, k});
  const std::string x = writer_.value(operand(outer), operand_at(outer, o, k));
  writer_.line(fmt::format("{}_next[i] = {};", name_of_side(outer), converted(x)));
  Element one{outer, outer == 'm', true, {}, writer_.close()};
  one.before = writer_.close();
  for (size_t i = writer_.loads().size(); i-- > loads_before;) {
    one.fixed = one.fixed && signature_.args[writer_.loads()[i].arg].fixed;
    const Index linear = writer_.loads()[i].linear;
    if (pool_.coefficient(linear, k) == 1) one.k_fastest = true;
    if (pool_.coefficient(linear, o) == 1) one.k_fastest = false;
  }
  return one;
}

DotFrame::Fetch DotFrame::fetch(const Element& one, int64_t side, int64_t bk, int64_t threads,
                                std::string_view type) const {
  const char outer = one.outer, name = name_of_side(outer);
  const std::string by_outer = outer == 'm' ? "BM" : "BN";
  Fetch f;
  f.outer = outer;
  f.each = divide_up(side * bk, threads);
  f.partial = side * bk % threads != 0;
  // Neighbouring threads take neighbouring elements of memory.
  const std::string by = one.k_fastest ? "BK" : by_outer;
  f.outer_of_e = fmt::format("e {} {}", one.k_fastest ? '/' : '%', by);
  f.k_of_e = fmt::format("e {} {}", one.k_fastest ? '%' : '/', by);
  f.lines = {"#pragma unroll", fmt::format("for (int i = 0; i < {}; ++i) {{", f.each),
             "const int e = thread + i * THREADS;",
             fmt::format("const int {} = {}0 + {};", outer, outer, f.outer_of_e),
             fmt::format("const int k = k0 + {};", f.k_of_e)};
  const std::string test = all_of({f.partial ? fmt::format("e < {} * BK", by_outer) : "",
                                   within(outer, side), within('k', bk)});
  if (!test.empty()) {
    f.lines.push_back(fmt::format("{}_next[i] = ({})0;", name, type));
    f.lines.push_back(fmt::format("if ({}) {{", test));
  }
  f.lines.insert(f.lines.end(), one.lines.begin(), one.lines.end());
  if (!test.empty()) f.lines.push_back("}");
  f.lines.push_back("}");
  return f;
}

std::vector<std::string> DotFrame::put(const Fetch& f, const std::string& place) {
  const std::string test =
      f.partial ? fmt::format("if (e < {} * BK) ", f.outer == 'm' ? "BM" : "BN") : "";
  return {"#pragma unroll", fmt::format("for (int i = 0; i < {}; ++i) {{", f.each),
          "const int e = thread + i * THREADS;",
          fmt::format("{}{} = {}_next[i];", test, place, name_of_side(f.outer)), "}"};
}

std::string DotFrame::within(char axis, int64_t block) const {
  const int64_t whole = axis == 'k' ? product_.k : extent(axis);
  return whole % block == 0 ? ""
                            : fmt::format("{} < {}", axis, static_cast<char>(std::toupper(axis)));
}

void DotFrame::define_result(const At& at, const std::string& sum, std::string_view sum_type) {
  const std::string_view type = register_type(product_.result);
  const std::string name = writer_.fresh(fmt::format("dot_{}", dot_.result.index));
  writer_.line(fmt::format("const {} {} = {}{};", type, name,
                           type == sum_type ? "" : fmt::format("({})", type), sum));
  writer_.define(dot_.result, at, name);
}

void DotFrame::write_element(const std::string& sum, std::string_view sum_type, int64_t bm,
                             int64_t bn) {
  At at = batch_at_;
  at.push_back(pool_.variable("m", product_.m));
  at.push_back(pool_.variable("n", product_.n));
  placed_ = placed(at);
  writer_.open_branch();
  define_result(at, sum, sum_type);
  write_sinks(writer_, placed_);
  const std::vector<std::string> lines = writer_.close();
  const std::string test = all_of({within('m', bm), within('n', bn)});
  if (test.empty()) {
    writer_.lines(lines);
  } else {
    writer_.block(fmt::format("if ({})", test), lines);
  }
}

PackedSinks DotFrame::pack(const std::string& sums, bool early) {
  const Index lane = pool_.variable("lane_of_pack", kPack);
  const Index pack = pool_.variable("n_pack", product_.n / kPack);
  At at = batch_at_;
  at.push_back(pool_.variable("m", product_.m));
  at.push_back(pool_.add(pool_.mul(pack, kPack), lane));
  placed_ = placed(at);
  return packed_sinks(
      writer_, lane, placed_, [&] { define_result(at, sums + ".at[lane_of_pack]", "float"); },
      early);
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
