// What most sources include, compiled once for each target that precompiles it. Nothing that
// brings <numeric> or <iomanip>, such as <random> and <filesystem>: names in there are ours as
// well.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "ir/graph.hpp"
#include "ir/program.hpp"
