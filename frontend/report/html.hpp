// A Program as one HTML page: its kernels over estimated time, with the streams they run on, the
// edges between them, the memory plan, and what keeps ops out of graphs. The page holds everything
// it shows and asks the network for nothing.
#pragma once

#include <string>

#include "ir/program.hpp"

namespace braid {

/// The page, UTF-8. What it shows stands in it as JSON, schema "braid.page/1", times rounded to
/// nanoseconds; the code that draws it is frontend/report/page/. Names that are not UTF-8 lose
/// their wrong bytes to U+FFFD. Bodies without predicted starts get them from lanes, edges and
/// estimates.
std::string to_html(const Program& p);

}  // namespace braid
