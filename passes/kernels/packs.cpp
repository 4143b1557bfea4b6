#include "passes/kernels/packs.hpp"

#include <fmt/format.h>

namespace braid::kernels {

bool split_pack(IndexPool& pool, Index linear, Index lane, int64_t count, Index* pack) {
  if (pool.coefficient(linear, lane) != 1) return false;
  const Index first = pool.add(linear, pool.mul(lane, -1));
  if (pool.depends_on(first, lane) || pool.mod(first, count) != pool.constant(0)) return false;
  *pack = pool.div(first, count);
  return true;
}

PackedSinks packed_sinks(ExprWriter& writer, Index lane, const std::vector<PlacedSink>& sinks,
                         const std::function<void()>& define, bool early) {
  IndexPool& pool = writer.pool();
  const Signature& signature = writer.signature();
  const std::string name_of_lane = pool.text(lane);
  std::map<std::pair<size_t, Index>, std::string> read, written;
  std::vector<std::string> stores;
  writer.open_branch();
  writer.set_memory([&](size_t arg, Index linear) {
    Index at;
    if (!split_pack(pool, linear, lane, kPack, &at) || !writer.directly_in_loop()) {
      return writer.element(arg, linear);
    }
    std::string& name = read[{arg, at}];
    if (name.empty()) {
      name = writer.fresh("pack_" + signature.args[arg].name);
      writer.line_before_loop(fmt::format("const auto {} = braid_load_pack{}<{}>({}, {});", name,
                                          early ? "_now" : "", kPack, signature.args[arg].name,
                                          pool.text(at)));
    }
    return fmt::format("{}.at[{}]", name, name_of_lane);
  });
  writer.open_loop({lane});
  if (define) define();
  write_sinks(writer, sinks, [&](size_t arg, Index linear) {
    Index at;
    if (!split_pack(pool, linear, lane, kPack, &at)) return writer.element(arg, linear);
    std::string& name = written[{arg, at}];
    if (name.empty()) {
      const Argument& a = signature.args[arg];
      name = writer.fresh("to_" + a.name);
      writer.line_before_loop(
          fmt::format("braid_pack<{}, {}> {};", storage_type(a.type.dtype), kPack, name));
      stores.push_back(fmt::format("braid_store_pack({}, {}, {});", a.name, pool.text(at), name));
    }
    return fmt::format("{}.at[{}]", name, name_of_lane);
  });
  const std::vector<std::string> loop = writer.close();
  writer.set_memory({});
  PackedSinks text;
  text.before = writer.close();
  text.after = {"#pragma unroll", fmt::format("for (int {} = 0; {} < {}; ++{}) {{", name_of_lane,
                                              name_of_lane, kPack, name_of_lane)};
  text.after.insert(text.after.end(), loop.begin(), loop.end());
  text.after.push_back("}");
  text.after.insert(text.after.end(), stores.begin(), stores.end());
  return text;
}

}  // namespace braid::kernels
