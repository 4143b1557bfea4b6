#include "frontend/codes.hpp"

namespace braid {

std::vector<CodeInfo> codes_of_runs() {
  return {
      {"E0601", "`--dim` names no dim of the model", "use the one suggested",
       "Only symbols, dims like B = { default = 8 }, take values from outside. A dim that is a "
       "number or "
       "an expression in the model is a constant.",
       "[dims]\nB = 8\nbraid run m.toml --dim B=16",
       "[dims]\nB = { default = 8 }\nbraid run m.toml --dim B=16"},
      {"E0602", "a dim without a value", "`--dim NAME=N`, or a default in the model",
       "A plan is made for fixed extents, so every symbol needs a value when the model is "
       "compiled.",
       "[dims]\nB = {}", "[dims]\nB = { default = 8 }"},
      {"E0603", "a dim above its max", "choose a smaller value",
       "The model says with `max` how far its author thought.",
       "B = { default = 8, max = 64 }\nbraid run m.toml --dim B=65", "braid run m.toml --dim B=64"},
      {"E0604", "an extent overflows or is negative with these dims", "choose smaller values",
       "A tensor has at most 2^62 bytes, and an extent is 0 or more. Expressions such as T - 1 "
       "bound the "
       "dims in them from below.",
       "shape = [\"T - 1\"]                                   # with --dim T=0", "--dim T=1"},
      {"E0605", "`--dtype` names no dtype of the model",
       "use the one suggested, or declare it in `[dtypes]`",
       "--dtype gives a name in the model's section [dtypes] another value.",
       "braid run m.toml --dtype T=bf16", "[dtypes]\nT = \"f32\""},
      {"E0701", "a file or folder cannot be written", "check the path and its rights",
       "Results are written under another name and renamed, so what was there before is unharmed.",
       "braid compile m.toml -o missing/m.braid",
       "mkdir missing && braid compile m.toml -o missing/m.braid"},
      {"E0703", "compilation was cancelled", "",
       "The progress callback, or Ctrl-C, ended it. Nothing was written.", "", ""},
      {"E0704", "streams out of range", "1 to 32",
       "`streams` bounds how many kernels may run side by side.", "Options o;\no.streams = 0;",
       "o.streams = 8;"},
      {"E0705", "a kernel, or all tensors together, larger than any device can take",
       "make the extents named smaller",
       "A shape may be legal and yet need more bytes or blocks than a GPU has. The sentence names "
       "the "
       "tensor or the kernel.",
       "x = { dtype = \"f32\", shape = [1099511627776, 1048576] }",
       "x = { dtype = \"f32\", shape = [1024, 1024] }"},
      {"E0706", "the temporaries do not fit within the memory limit",
       "allow as many bytes as the sentence names, or make the temporaries named smaller",
       "With a limit the planner also tries fewer streams, and lets temporaries share bytes where "
       "only extra edges order them. This is what the best of these plans needs.",
       "braid compile m.toml --memory-limit 1024 -o m.braid",
       "braid compile m.toml --memory-limit 1048576 -o m.braid"},
      {"E0707", "an op stands outside graphs, and the settings do not allow that",
       "replace the op, drop its mark, or set on_break = \"allow\"",
       "`on_break` is allow, warn or error. An op marked `graph = false`, or a host function that "
       "is called by a break (way = \"break\", --host=break), is in no CUDA graph: the work is cut "
       "into several, or host work comes before or after it.",
       "[compile]\non_break = \"error\"                            # and a node with graph = false",
       "[compile]\non_break = \"warn\""},
      {"E0708", "a program is not one graph alone, and that is required",
       "move or replace the op that is named; `braid inspect --show breaks` lists all",
       "`require_single_graph` refuses every program but those of one graph with nothing outside "
       "it: no second graph, no host function and no op marked `graph = false`. Where several "
       "graphs are needed, the message shows the ops, each of which runs after the one before, "
       "that force as many.",
       "braid compile m.toml -o m.braid --require-single-graph  # a host op between two others",
       "braid compile m.toml -o m.braid"},
      {"E0801", "a device name is none of auto, sim, a number", "use one of them",
       "auto takes a GPU if there is one and simulates otherwise; sim always simulates; a number "
       "names a "
       "GPU.",
       "Device::open(\"cuda:0\")", "Device::open(\"0\")"},
      {"E0802", "a tensor is missing or has another type", "compare with the type shown",
       "A .npy file must have the shape of what it is given for. Floats become the width needed, "
       "integers "
       "too, if every number fits.",
       "--input x=@x.npy                                     # an array of ints for a float input",
       "numpy.save(\"x.npy\", x.astype(\"float32\"))"},
      {"E0803", "a tensor is made from a type with symbolic dims",
       "use the bound type, `Executable::type(name)`", "Memory needs numbers for extents.",
       "HostTensor x(graph_x.type());                        // f32[B,8]",
       "HostTensor x(executable.type(\"x\"));                 // f32[16,8]"},
      {"E0804", "the model does not fit into the host's memory", "choose smaller dims",
       "Random inputs, initial weights and the simulator's memory are made on the host. The "
       "sentence "
       "says how much all of it is, and which tensor is the largest.",
       "braid run m.toml --device sim --dim B=1000000000",
       "braid run m.toml --device sim --dim B=8"},
      {"E0805", "a tensor has no such element", "elements count from 0, row by row",
       "`at` and `set` of a HostTensor take the position of one element among all of them.",
       "HostTensor t({f32, Shape{4, 3}});\nt.set(12, 1.0);", "t.set(11, 1.0);"},
      {"E0806", "a host function that nobody registered", "register it under the name shown",
       "Host ops name functions of the host's; the caller gives them where the program is built. "
       "The braid tool has `identity` and `print` alone.",
       "build(g, store)                                         # g calls host(\"sample\", ..)",
       "build(g, store, {}, {{\"sample\", sample}})"},
      {"E0807", "the interpreter made as many steps as its caller allows",
       "give the loop a limit, or allow more steps",
       "A loop without a limit ends by its condition alone; a bound on the steps ends an "
       "evaluation "
       "that would go on for ever.",
       "", ""},
      {"E0808", "a kernel or library call of the user's without a reference",
       "name a host function that computes the same as its reference",
       "The interpreter and the simulator cannot run code that is written for a GPU. They call the "
       "host function that such a kernel or library function names as its reference.",
       "", ""},
      {"E0810", "unknown param", "`Store::names()` lists them",
       "A store has the params of the programs that were declared in it, by their full names.",
       "store.set(\"w\", values);", "store.set(\"l1/w\", values);"},
      {"E0811", "two programs declare one param with different types", "rename one",
       "Programs that share a store share the params of equal names.",
       "program a: w is f32[4], program b: w is f16[4]", "use two stores, or two names"},
      {"E0812", "a param is set to a value of another type", "compare with the type shown",
       "Store::set copies bytes and converts nothing; load_weights converts.",
       "store.set(\"w\", f64_values);", "load_weights(store, program, {\"w.safetensors\"});"},
      {"E0813", "a Program's kernels are not compiled",
       "`runtime::compile_modules`, or `braid compile`",
       "compile() needs no NVRTC and leaves kernels as text. build() does both.",
       "Executable e(compile(g), store);", "Executable e = build(g, store);"},
      {"E0820", "unknown input, output or scalar", "compare with the names shown",
       "Names are those given to Graph::input, Graph::scalar and Graph::output, below their "
       "scopes.",
       "executable.run({{\"X\", values}})", "executable.run({{\"x\", values}})"},
      {"E0821", "a binding of another size", "bind exactly the bytes named",
       "A binding replaces the memory of an input or output, so it has its size.",
       "e.bind(\"x\", address, 1024);", "e.bind(\"x\", address, e.type(\"x\").bytes());"},
      {"E0822", "a binding at address 0", "bind memory of the device", "Null is nobody's memory.",
       "e.bind(\"x\", 0, bytes);", "e.bind(\"x\", address, bytes);"},
      {"E0823", "a binding that is not 16-byte aligned", "move it",
       "Kernels read up to 16 bytes at once.", "e.bind(\"x\", address + 4, bytes);",
       "e.bind(\"x\", address + 16, bytes);"},
      {"E0824", "a binding that overlaps another, the arena or the store", "bind memory of its own",
       "Edges between nodes follow from who reads and writes which bytes; they are planned for "
       "bytes that "
       "are apart.",
       "e.bind(\"x\", p, n);\ne.bind(\"y\", p, n);",
       "e.bind(\"x\", p, n);\ne.bind(\"y\", p + n, n);"},
      {"E0825", "a value of another type", "compare with the type shown",
       "write and run copy bytes and convert nothing.", "e.write(\"x\", HostTensor({f64, {4}}));",
       "e.write(\"x\", HostTensor(e.type(\"x\")));"},
      {"E0826", "an input that was not given", "give it", "run() takes every input of the program.",
       "e.run({})", "e.run({{\"x\", values}})"},
      {"E0827", "a runtime scalar is set to a number its dtype cannot hold",
       "choose a number in range, or another dtype",
       "Integers and b1 must be exact; a float dtype rounds.",
       "pos = { dtype = \"i32\" }\n--set pos=1.5", "--set pos=1"},
      {"E0828", "a program with conditional nodes is launched kernel by kernel",
       "launch it as a graph, or compile it with `--branches` and `--loops` that need none",
       "Only a CUDA graph has conditional nodes. Guarded kernels, and branches and loops that the "
       "host drives, run in either mode.",
       "braid run m.toml --stream", "braid run m.toml --stream --branches=predicate --loops=host"},
      {"E0830", "a Program that is not well formed", "a bug, unless the Program was made by hand",
       "The runtime checks indices, sizes and names before it touches the device.", "", ""},
      {"E0840", "a `.braid` file that is damaged, of another version, or fails the checker",
       "compile the model again",
       "The file carries a checksum and its plan is proved again when it is loaded.",
       "braid run old.braid", "braid compile m.toml -o new.braid"},
      {"E0850", "a host function failed", "mend what it says it threw",
       "The launch that called it is given up; the executable stays usable.",
       "[](auto in, auto out) { throw std::runtime_error(\"no more data\"); }",
       "[](auto in, auto out) { out[0].set(0, next()); }"},
      {"E0851", "a host function uses the library's devices, stores or executables",
       "use them before or after the launch, or in another thread",
       "It runs inside a launch, which holds locks that such a call would wait for.",
       "[&](auto in, auto out) { other.run(inputs); }",
       "[&](auto in, auto out) { queue.push(in[0]); }"},
      {"E0860", "a check in the model failed", "print what it takes, or what that is computed from",
       "The launch ran to its end, and later launches are not concerned; waiting for this one "
       "tells.",
       "g.check(log(x), Check::finite);  // x has zeros", "g.check(log(x + 1e-6), Check::finite);"},
      {"E0861", "the function that gets messages failed", "mend what it says it threw",
       "The launch ran to its end; waiting for it tells. Later messages are delivered.",
       "[](const Message& m) { throw std::runtime_error(\"no space\"); }",
       "[](const Message& m) { std::cout << to_string(m) << '\\n'; }"},
      {"E0862", "a launch has no item of that label",
       "ask for an item of the model's that the launch reaches",
       "Each launch has the last value of every item that it sent; branches not taken, loops "
       "without "
       "iterations and a full ring send none.",
       "ticket.item(\"los\")", "ticket.item(\"loss\")"},
      {"E0863", "the function that gets messages uses the executable that they are from",
       "do it after the launch, or keep the message for another thread",
       "The executable waits for the function; stores and other executables are free.",
       "[&](const Message& m) { executable.run(inputs); }",
       "[&](const Message& m) { queue.push(m); }"},
      {"E0870", "a host function failed that a graph calls", "mend what it says it threw",
       "The ticket of the launch says so. The graph went on with zeros in place of the results, "
       "and "
       "no other function was called for that launch: what it wrote into outputs and params means "
       "nothing. Later launches are not concerned.",
       "[](auto in, auto out) { throw std::runtime_error(\"no more data\"); }",
       "[](auto in, auto out) { out[0].set(0, next()); }"},
      {"E0871", "a host function that a graph calls did not answer in time",
       "let it not call CUDA nor wait for a launch, or give it longer: HostOptions::deadline",
       "The graph waits for it and keeps the GPU, so it waits 10 s unless told otherwise. The "
       "launch "
       "went on with zeros, and so did those behind it that were under way, without a call.",
       "[&](auto in, auto out) { queue.wait_for_the_next_launch(out[0]); }",
       "[&](auto in, auto out) { queue.take_if_there(out[0]); }"},
      {"E0872", "a launch while a host function has not returned that did not answer in time",
       "launch again when it has returned", "Its executable is usable again from then on.",
       "while (true) try { e.launch().wait(); } catch (const braid::Error&) {}",
       "while (true) try { e.launch().wait(); } catch (const braid::Error&) { wait_a_little(); }"},
      {"E0879", "a program whose graphs call host functions cannot be written as C++",
       "compile it with `--host=break`",
       "`--format=cpp` writes the driver calls of a plan. Where a graph waits for the host, a "
       "thread "
       "has to answer while it runs, which a list of calls does not show.",
       "braid inspect m.toml --format=cpp", "braid inspect m.toml --format=cpp --host=break"},
      {"E0880", "the compiler refuses a kernel's code", "see the sentence, and the line",
       "NVRTC compiles the code of [kernels] when the model is compiled for a GPU. Its messages "
       "are shown with the file and line of the code.",
       "y[i] = x[i]", "y[i] = x[i];"},
      {"E0881", "a kernel's function takes other parameters than the model gives it",
       "change the function, or `parameters` in the model",
       "They are compared in order, when the code is compiled: an `in` tensor is a pointer to "
       "const, `out` and `inout` are pointers, numbers come by value. f16 is __half, bf16 "
       "__nv_bfloat16, i64 long long, b1 bool.",
       "parameters = [\"in x: f32[T]\", \"out y: f32[T]\"]\n"
       "__global__ void f(const __half* x, float* y)",
       "__global__ void f(const float* x, float* y)"},
      {"E0882", "a kernel's code has no such __global__ function", "use the one suggested",
       "`function` names it as C++ does: a template with its arguments, a function of a namespace "
       "with its path.",
       "function = \"rope\"      # template <int n> __global__ void rope(..)",
       "function = \"rope<64>\""},
      {"E0890", "a library op in a conditional node cannot be captured",
       "mend its function, or compile with `--branches=host` and `--loops=host`",
       "The work of a library op becomes part of a graph by capturing what its function enqueues. "
       "Where that fails elsewhere, the op stands outside graphs; the graph of an IF, a SWITCH or "
       "a "
       "WHILE cannot be cut. The sentence says what the function did.",
       "[](const LibraryCall& c) { cudaStreamSynchronize(c.stream); }",
       "[](const LibraryCall& c) { cublasSgemm(..); }  // on c.stream, and nothing else"},
      {"E0891", "cuBLASLt is not found, or cannot compute a product",
       "set CUDA_HOME to a CUDA toolkit, or compile with `--dots=braid`",
       "The plan has products that cuBLASLt computes. The library is found at run time: "
       "libcublasLt.so.13 or .12 beside NVRTC, in CUDA_HOME, or on the library path.",
       "braid compile m.toml -o m.braid --dots=cublaslt",
       "braid compile m.toml -o m.braid --dots=braid"},
      {"E0892", "a library op names a function that is not given",
       "give it to build(), by that name",
       "On a GPU the function enqueues the work. The simulator calls the op's reference instead.",
       "build(g, store)", "build(g, store, {}, {}, {}, {}, {{\"fft\", fft}})"},
      {"E0893", "a library function failed at a launch or at a new binding",
       "see what it says; the executable stays usable",
       "Outside graphs its function is called at each launch, and when an input or output that it "
       "uses is bound anew its work is captured again.",
       "[](const LibraryCall& c) { throw std::runtime_error(\"no plan\"); }",
       "[](const LibraryCall& c) { enqueue(plan, c.stream); }"},
      {"E0894", "a plan with library ops is asked for as C++ text",
       "`--dots=braid` for products, else an Executable",
       "The text makes each node by a literal driver call. What a library function enqueues only a "
       "call of it tells.",
       "braid inspect m.toml --format=cpp --dots=cublaslt",
       "braid inspect m.toml --format=cpp --dots=braid"},
      {"E0901", "`.bir`: a value is used before its definition", "order the lines",
       "The IR is in order: every operand stands above its use.",
       "%1: f32[4] = relu %0\n%0: f32[4] = input \"x\"",
       "%0: f32[4] = input \"x\"\n%1: f32[4] = relu %0"},
      {"E0902", "`.bir`: an input, param or output without a name", "name it",
       "Callers bind them by name.", "%0: f32[4] = input", "%0: f32[4] = input \"x\""},
      {"E0903", "`.bir`: a version of a param is replaced twice", "assign to the newest one",
       "The versions of a param form a chain.", "%2 = assign %0 %1\n%3 = assign %0 %1",
       "%2 = assign %0 %1\n%3 = assign %2 %1"},
      {"E0904", "`.bir`: an output is a param, not its value", "read it",
       "A param stands for a place that changes; its value is what read gives.", "output \"y\" %0",
       "%1 = read %0\noutput \"y\" %1"},
      {"E0905", "`.bir`: an op's operands or result have a wrong type", "see the sentence",
       "Every op of the IR has one type rule, which ir/README.md gives; nothing broadcasts by "
       "itself.",
       "add of f32[4] and f32[1]", "broadcast the f32[1] to f32[4] first"},
      {"E0906", "`.bir`: a constant's literal does not fit its type", "see the sentence",
       "A literal has one element for all, or one for each element of its type.", "", ""},
      {"E0907", "`.bir`: a body that belongs to no op or to two, or bodies too deep in each other",
       "give each branch and loop bodies of its own",
       "A body is a graph of its own of one branch or loop; at most 64 may nest. Its dims are dims "
       "of the graph around it too.",
       "", ""},
      {"E0908", "`.bir`: a local, a handle or the ring is used as it cannot be", "see the sentence",
       "A local is assigned before it is read; a handle is assigned, and decides a branch or a "
       "loop; "
       "the ring takes messages, and a graph has one.",
       "%0: state f32[4] = param \"t\" {sort=local}\n%1: f32[4] = read %0",
       "%0: state f32[4] = param \"t\" {sort=local}\n%1: state f32[4] = assign %0, %9\n"
       "%2: f32[4] = read %1"},
  };
}

}  // namespace braid
