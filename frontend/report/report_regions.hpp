// What the report says of branches, loops and messages: those that are left in the plan, those that
// need nothing any more, and what the same would be elsewhere.
#pragma once

#include <string>
#include <vector>

#include "frontend/report/report.hpp"

namespace braid::report {

/// By index. A program that nobody checked may ask for anything that it holds.
std::vector<RegionRow> region_rows(const Program& p);
/// Of a script; regions nest, so sides are followed to the end.
Launched launched_by(const Program& p, const std::vector<Step>& script);
/// Branches and loops that are plain kernels or conditional nodes, messages, and what only the
/// device knows the size of.
void add_avoided(const Program& p, std::vector<Avoided>& avoided);
/// Of such a kernel, how much its results may be: "room for 512 rows, ..". Else empty.
std::string room_text(const Kernel& k);

/// A table of the regions, with the warning of ArmedBodies below it; empty for none.
std::string regions_text(const Report& r);
/// A line for each break that is none.
std::string avoided_text(const Report& r);
/// The breaks by the rules of others; empty if there are none.
std::string reference_text(const Report& r);

}  // namespace braid::report
