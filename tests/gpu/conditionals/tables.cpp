// The stories that the README's table tells of.
#include "lab.hpp"

namespace probe {
namespace {

void title(const char* text) { std::printf("\n# %s (at %.0f s)\n", text, elapsed()); }
void all(std::initializer_list<std::string> stories) {
  for (const std::string& s : stories)
    if (!out_of_time()) tell(s);
}
struct Search {
  std::string story;
  int low, high;
};
void thresholds(std::initializer_list<Search> searches) {
  for (const Search& s : searches) threshold(s.story, s.low, s.high);
}
std::string repeat(int n, const std::string& words) {
  std::string s;
  for (int i = 0; i < n; i++) s += words + ' ';
  return s;
}

}  // namespace

void slowdown_tables() {
  title("What is slowed, what undoes it");
  all({"if:20 v l0 v r"});
  title("One branch: skipped, taken, in turn");
  all({"if:20 u l1 l0 l1 l0", "if:20 l0 l1 l0", "if:20 l1 l0 u l0", "if:20 l0 l0x50 d",
       "if:20,1 l0 l1 l0", "if:1,20 l0 l1 l0", "if:20,20 l1 l0 l1", "if:20 u d", "if:20 l0 W l0",
       "if:20 W l0", "if:20 N l0", "switch:1,20 N l7", "if:20 l1 k l0", "if:20 l1 K l0",
       "if:20 l1 k u l0", "if:20 l0 k l1"});
  title("Which bodies of a switch count");
  all({"switch:20,20,20 l0 l1 l2 l7", "switch:20,20,20 l1 l2 l0 l1", "switch:1,20,20 l7 l2 l1 l0",
       "switch:20,1,1 l1 l2 l0", "switch:1,1,20 l0 l1 l7", "switch:1,20 l7 l1 l0",
       "switch:0,20 l7 l1 l0"});
  thresholds({{"switch:%,1,1 l2", 1, 64},
              {"switch:%,1,1 l7", 1, 64},
              {"switch:1,%,% l7", 1, 64},
              {"switch:%,%,% l7", 1, 64},
              {"switch:1,%,1 l7", 1, 64}});
  title("How much it takes: kernels of a skipped body, and branches in a row");
  thresholds({{"if:% l0", 1, 64},         {"2*if:% l0", 1, 32},        {"3*if:% l0", 1, 32},
              {"4*if:% l0", 1, 32},       {"6*if:% l0", 1, 32},        {"%*if:0 l0", 1, 64},
              {"%*if:1 l0", 1, 32},       {"%*if:2 l0", 1, 32},        {"%*if:3 l0", 1, 32},
              {"%*if:6 l0", 1, 32},       {"%*if:9 l0", 1, 32},        {"%*if:13 l0", 1, 32},
              {"if:%w2 l0", 1, 64},       {"if:%w4 l0", 1, 64},        {"if:%w64 l0", 1, 64},
              {"if:%=many l0", 1, 64},    {"if:%=fat l0", 1, 64},      {"if:%=pdl l0", 1, 64},
              {"if:%=local l0", 1, 64},   {"%*switch:1,20 l7", 1, 32}, {"%*switch:0,20 l7", 1, 64},
              {"%*switch:1,20 l1", 1, 32}});
  title("Over graphs: kept, destroyed, with others taken between");
  all({repeat(10, "if:1 l0"), repeat(10, "if:1 l0 d"), repeat(10, "if:1 u d"), repeat(10, "if:1"),
       "if:7 l0 if:20 l1 if:7 l0 if:7 l0", "if:7 l0 l1 if:7 l0 l1 if:7 l0 l1",
       "if:20 l0 if:1 l1 if:20 l1", "if:20 l0 while:20 l3", "if:20 l0 d if:20 l1", "if:20 l0 p60",
       "if:20 l0 switch:0,1 l0 l1", "3*take:1 l0 6*skip:1 l0",
       "4*skip:3 l0 d take:20 l0 4*skip:3 l0"});
  title("Loops, and conditionals inside conditionals");
  all({"while:20 l0 l1 l0 l3 l0", "while:20 u l3", "while:20 l3 l0", "take:1(skip:20) l0 l0",
       "skip:1(take:20) l0", "while:2(skip:20) l3 l0 l3", "while:2(if:20) l1 l0 l3",
       "while:2(while:20) l3", "take:20(skip:1) l0", "skip:1(skip:1(skip:20)) l0"});
  thresholds({{"while:% l0", 1, 64},
              {"%*while:1 l0", 1, 32},
              {"take:1(skip:%) l0", 1, 64},
              {"while:2(skip:%) l3", 1, 64},
              {"skip:1(take:%) l0", 1, 64},
              {"skip:%(take:1) l0", 1, 64},
              {"take:1(%*skip:1) l0", 1, 32}});
  title("Streams and settings of the process");
  all({"s if:20 l0", "S if:20 l0", "if:20 s l0", "if:20 S l0"});
  for (const char* v : {"CUDA_DEVICE_MAX_CONNECTIONS=1", "CUDA_DEVICE_MAX_CONNECTIONS=2",
                        "CUDA_DEVICE_MAX_CONNECTIONS=32", "CUDA_SCALE_LAUNCH_QUEUES=0.25x",
                        "CUDA_SCALE_LAUNCH_QUEUES=4x"})
    threshold(std::string(v) + " if:% l0", 1, 64);
}

}  // namespace probe
