// usage: conditionals slowdown | prices | tell STORY... | threshold STORY LOW HIGH   (README.md)
// Exit code 2 for a wrong call.
#include <cstdlib>

#include "lab.hpp"

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "slowdown" && argc == 2) {
    probe::slowdown_tables();
  } else if (mode == "prices" && argc == 2) {
    probe::price_tables();
  } else if (mode == "tell" && argc > 2) {
    for (int i = 2; i < argc; i++) probe::tell(argv[i]);
  } else if (mode == "threshold" && argc == 5) {
    probe::threshold(argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
  } else {
    std::fputs("usage: conditionals slowdown | prices | tell STORY... | threshold STORY LOW HIGH\n",
               stderr);
    return 2;
  }
  std::printf("%.0f s\n", probe::elapsed());
}
