// How a block's sums, once they lie in shared memory, become results.
#include <fmt/format.h>

#include <algorithm>

#include "passes/kernels/dot_frame.hpp"

namespace braid::kernels {

void DotFrame::define_result(const At& at, const std::string& sum) {
  const std::string_view type = register_type(product_.result);
  const std::string name = writer_.fresh(fmt::format("dot_{}", dot_.result.index));
  writer_.line(fmt::format("const {} {} = {}{};", type, name,
                           type == sum_type_ ? "" : fmt::format("({})", type), sum));
  writer_.define(dot_.result, at, name);
}

void DotFrame::write_element(const std::string& sum) {
  At at = batch_at_;
  at.push_back(pool_.variable("m", product_.m));
  at.push_back(pool_.variable("n", product_.n));
  placed_ = placed(at);
  writer_.open_branch();
  define_result(at, sum);
  write_sinks(writer_, placed_);
  const std::vector<std::string> lines = writer_.close();
  const std::string test = all_of({within('m', rows_), within('n', bn_)});
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
      writer_, lane, placed_, [&] { define_result(at, sums + ".at[lane_of_pack]"); }, early);
}

void DotFrame::choose_results(int64_t bm, int64_t bn, int64_t threads, std::string_view sum_type,
                              int64_t share) {
  bm_ = bm, bn_ = bn, threads_ = threads, share_ = share, sum_type_ = sum_type;
  rows_ = share == 1 ? std::min(bm, product_.m) : bm;
  packed_ = product_.n % kPack == 0 && bn % kPack == 0;
  const int64_t per_row = std::max<int64_t>(1, bn / kPack), packs = rows_ * per_row / share;
  if (share > 1) {
    writer_.line(fmt::format(
        "constexpr int SHARE = {};  // packs that a block of the cluster adds up", packs));
  }
  if (!packed_) return;
  pack_ = pack("totals", packs <= threads);
  inside_ = within('m', rows_).empty() ? "" : "m0 + r < M";
  if (product_.n % bn != 0) {
    inside_ = all_of({inside_, fmt::format("n0 / {} + c < {}", kPack, product_.n / kPack)});
  }
  if (packs > threads) return;
  early_ = true;
  inside_ = all_of({packs < threads ? fmt::format("thread < {}", packs) : "", inside_});
  writer_.line("");
  const std::string e = share == 1 ? "thread" : "(rank * SHARE + thread)";
  writer_.line(fmt::format("const int r = {} / {}, c = {} % {};", e, per_row, e, per_row));
  if (inside_.empty()) {
    writer_.line("const int m = m0 + r;");
    writer_.line(fmt::format("const int n_pack = n0 / {} + c;", kPack));
  } else {
    writer_.line(fmt::format("const bool mine = {};", inside_));
    writer_.line("const int m = mine ? m0 + r : 0;");
    writer_.line(fmt::format("const int n_pack = mine ? n0 / {} + c : 0;", kPack));
    inside_ = "mine";
  }
  writer_.lines(pack_.before);
}

void DotFrame::write_results(int64_t slices) {
  if (!packed_ && share_ == 1) return write_elements(slices);
  const auto totals = [&](std::string_view at) {
    if (share_ == 1) {
      write_totals(slices, "SLICES",
                   [](std::string_view s) { return fmt::format("&partial[{}][r][0], c", s); });
    } else {
      write_totals(share_, "SPLIT",
                   [&](std::string_view s) { return fmt::format("share_of[{}], {}", s, at); });
    }
  };
  if (early_) {
    if (!inside_.empty()) writer_.line(fmt::format("if ({}) {{", inside_));
    totals("thread");
    writer_.lines(pack_.after);
    if (!inside_.empty()) writer_.line("}");
    return;
  }
  const int64_t per_row = bn_ / kPack;
  if (share_ == 1) {
    writer_.line(fmt::format("for (int e = thread; e < {}; e += THREADS) {{", rows_ * per_row));
  } else {
    writer_.line("for (int i = thread; i < SHARE; i += THREADS) {");
    writer_.line("const int e = rank * SHARE + i;");
  }
  writer_.line(fmt::format("const int r = e / {}, c = e % {};", per_row, per_row));
  if (!packed_) {
    totals("i");
    writer_.line("const int m = m0 + r;");
    writer_.line("#pragma unroll");
    writer_.line(fmt::format("for (int j = 0; j < {}; ++j) {{", kPack));
    writer_.line(fmt::format("const int n = n0 + c * {} + j;", kPack));
    write_element("totals.at[j]");
    writer_.line("}");
  } else {
    if (!inside_.empty()) writer_.line(fmt::format("if ({}) {{", inside_));
    writer_.line("const int m = m0 + r;");
    writer_.line(fmt::format("const int n_pack = n0 / {} + c;", kPack));
    writer_.lines(pack_.before);
    totals("i");
    writer_.lines(pack_.after);
    if (!inside_.empty()) writer_.line("}");
  }
  writer_.line("}");
}

void DotFrame::write_totals(int64_t slices, std::string_view count,
                            const std::function<std::string(std::string_view)>& place) {
  writer_.line(fmt::format("auto totals = braid_load_pack<{}>({});", kPack, place("0")));
  if (slices == 1) return;
  writer_.line("#pragma unroll");
  writer_.line(fmt::format("for (int s = 1; s < {}; ++s) {{", count));
  writer_.line(fmt::format("const auto more = braid_load_pack<{}>({});", kPack, place("s")));
  writer_.line("#pragma unroll");
  writer_.line(fmt::format("for (int i = 0; i < {}; ++i) totals.at[i] += more.at[i];", kPack));
  writer_.line("}");
}

void DotFrame::write_elements(int64_t slices) {
  writer_.line(fmt::format("for (int e = thread; e < {} * BN; e += THREADS) {{", rows_));
  writer_.line("const int m = m0 + e / BN;");
  writer_.line("const int n = n0 + e % BN;");
  writer_.line(fmt::format("{} total = partial[0][e / BN][e % BN];", sum_type_));
  if (slices > 1) {
    writer_.line("#pragma unroll");
    writer_.line("for (int s = 1; s < SLICES; ++s) total += partial[s][e / BN][e % BN];");
  }
  write_element("total");
  writer_.line("}");
}

}  // namespace braid::kernels
