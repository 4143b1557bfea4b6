// `bench --kernels`: each kernel's time by itself, beside what the cost model says of it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "ir/program.hpp"
#include "runtime/kernel_times.hpp"

namespace braid::cli {

/// Both list what costs the plan most first: uses times the time, the predicted one if !`timed`.
nlohmann::ordered_json kernels_json(const Program& p, const std::vector<runtime::KernelTime>& times,
                                    bool timed);
std::string kernels_text(const Program& p, const std::vector<runtime::KernelTime>& times,
                         bool timed);

}  // namespace braid::cli
