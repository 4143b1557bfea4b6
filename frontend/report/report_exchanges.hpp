// The report on host functions that graphs call without ending.
#pragma once

#include <string>
#include <vector>

#include "frontend/report/report.hpp"

namespace braid::report {

/// One for each of Program::exchanges, in order.
std::vector<ExchangeRow> exchange_rows(const Program& p);

/// A table of them and what they ask of the GPU and the host; empty if there are none.
std::string exchanges_text(const Report& r);

/// What `explain` says of a node that calls a host function.
std::string exchange_text(const Program& p, const Node& node);

}  // namespace braid::report
