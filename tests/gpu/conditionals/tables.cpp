// The experiments on the slow-down that the README's table tells of.
#include "lab.hpp"

namespace probe {
namespace {

void all(std::initializer_list<const char*> specs) {
  for (const char* s : specs)
    if (!out_of_time()) slow(s);
}
void title(const char* text) { std::printf("\n# %s (at %.0f s)\n", text, elapsed()); }

}  // namespace

void slowdown_tables() {
  title("Known to slow a process: what it slows, what undoes it. Plain graphs");
  all({"kind=switch bodies=3 kernels=20 value=2 detail=2",
       "kind=plain bodies=3 kernels=20 graphs=10", "kind=child bodies=3 kernels=20 graphs=10",
       "kind=device bodies=3 kernels=20 graphs=10"});
  title("How many graphs, all kept");
  for (const char* k : {"1", "2", "4", "8", "16", "20", "32", "64"})
    if (!out_of_time()) slow(std::string("kind=if value=1 graphs=48 kernels=") + k);
  all({"kind=ifelse graphs=48 kernels=1", "kind=ifelse graphs=48 kernels=4",
       "kind=ifelse graphs=48 kernels=20", "kind=switch bodies=3 graphs=48 kernels=1",
       "kind=switch bodies=3 graphs=48 kernels=4", "kind=switch bodies=3 graphs=48 kernels=19",
       "kind=switch bodies=4 graphs=48 kernels=1", "kind=switch bodies=8 graphs=48 kernels=1",
       "kind=switch bodies=16 graphs=48 kernels=1", "kind=while graphs=48 kernels=1",
       "kind=while graphs=48 kernels=4", "kind=while graphs=48 kernels=16",
       "kind=while graphs=48 kernels=64"});
  title("What it takes of 3 bodies of 20");
  all({"stage=build", "stage=instantiate", "stage=upload", "value=0", "value=7", "times=100",
       "kernel=args", "kernel=many", "kernel=fat", "kernel=local", "kernel=shared", "block=256",
       "kernel=pdl pdl=1", "width=2", "width=4", "width=20", "keep=0 graphs=48 kernels=1",
       "keep=0 graphs=48 kernels=4 kind=while"});
  title("One graph: how many kernels in a body");
  threshold("kind=switch bodies=3", "kernels", 1, 64);
  threshold("kind=if value=1", "kernels", 1, 512);
  threshold("kind=ifelse", "kernels", 1, 256);
  threshold("kind=switch bodies=4", "kernels", 1, 64);
  threshold("kind=switch bodies=8", "kernels", 1, 64);
  threshold("kind=while", "kernels", 1, 512);
  title("One graph: how many conditional nodes, how deep");
  threshold("kind=if value=1 kernels=1", "conds", 1, 64);
  threshold("kind=if value=0 kernels=1", "conds", 1, 64);
  threshold("kind=if value=1 kernels=1 parallel=1", "conds", 1, 32);
  threshold("kind=switch bodies=3 kernels=1", "conds", 1, 32);
  threshold("kind=while kernels=1", "conds", 1, 64);
  threshold("kind=if value=1 kernels=1", "depth", 1, 16);
  threshold("kind=while kernels=1", "depth", 1, 8);
  threshold("kernels=1", "bodies", 1, 64);
  title("Settings of the process");
  all({"CUDA_DEVICE_MAX_CONNECTIONS=1", "CUDA_DEVICE_MAX_CONNECTIONS=2",
       "CUDA_DEVICE_MAX_CONNECTIONS=16", "CUDA_DEVICE_MAX_CONNECTIONS=32",
       "CUDA_SCALE_LAUNCH_QUEUES=0.25x", "CUDA_SCALE_LAUNCH_QUEUES=4x", "CUDA_MODULE_LOADING=EAGER",
       "pending=64", "pending=32768", "stack=65536"});
}

}  // namespace probe
