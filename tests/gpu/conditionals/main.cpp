// usage: conditionals slowdown | prices | slow "SPEC" | threshold "SPEC" KEY LOW HIGH   (README.md)
// Exit code 2 for a wrong call.
#include <cstdlib>

#include "lab.hpp"

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "slowdown" && argc == 2) {
    probe::slowdown_tables();
  } else if (mode == "prices" && argc == 2) {
    probe::price_tables();
  } else if (mode == "slow" && argc > 2) {
    for (int i = 2; i < argc && !probe::out_of_time(); i++) probe::slow(argv[i]);
  } else if (mode == "threshold" && argc == 6) {
    probe::threshold(argv[2], argv[3], std::atoi(argv[4]), std::atoi(argv[5]));
  } else {
    std::fputs(
        "usage: conditionals slowdown | prices | slow SPEC... | threshold SPEC KEY LOW HIGH\n",
        stderr);
    return 2;
  }
  std::printf("%.0f s\n", probe::elapsed());
}
