// The report on what runs in a plan beside our kernels: library calls and kernels of the user's.
#pragma once

#include <string>
#include <vector>

#include "frontend/report/report.hpp"

namespace braid::report {

/// One for each node that is such a call or kernel, in the order of the plan.
std::vector<CodeRow> code_rows(const Program& p);

/// The file with the code of a kernel of the user's, without its folders.
std::string code_file(const Program& p, const Kernel& k);

/// A table of them; empty if there are none.
std::string codes_text(const Report& r);

}  // namespace braid::report
