#include "toolchain/build.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <future>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

#include "kiln/base/digest.hpp"
#include "kiln/base/error.hpp"
#include "kiln/base/file.hpp"
#include "toolchain/clock.hpp"
#include "toolchain/linker.hpp"
#include "toolchain/nvrtc.hpp"

namespace kiln::codegen {
namespace fs = std::filesystem;

namespace {

// Into a directory that nobody else sees: no need to be atomic or to wait for the disk.
void write_plain(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) {
    throw Error(ErrorCode::kIo, "cannot write " + path.string());
  }
}

// Runs `work(i)` for every i below `count` on as many threads as there are cores. After a failure
// no new work is begun; the first one is thrown.
void for_each_in_parallel(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto worker = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = failure ? failure : std::current_exception();
        next = count;
      }
    }
  };
  {
    const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < std::min(cores, count); ++i) {
      threads.emplace_back(worker);
    }
    worker();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

// What NVRTC takes for one, in bytes of C++.
constexpr std::size_t kImageCost = 20'000;

// So that the last ones are short, and no core waits long for another. Without loops to vectorise a
// compiler takes a third of the time.
std::vector<std::size_t> longest_first(const std::vector<Unit>& units) {
  const auto cost = [&](std::size_t i) {
    return units[i].source.size() * (units[i].vectorized ? 3 : 1) +
           units[i].images.size() * kImageCost;
  };
  std::vector<std::size_t> order(units.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return cost(a) > cost(b); });
  return order;
}

// A file beside `library` that is renamed to it in the end, or removed.
class PendingFile {
 public:
  explicit PendingFile(const fs::path& target) : target_(target) {
    static std::atomic<unsigned> counter{0};
    path_ = target;
    path_ += ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter++);
  }
  ~PendingFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }

  void commit() {
    std::error_code failure;
    fs::rename(path_, target_, failure);
    if (failure) {
      throw Error(ErrorCode::kIo, "cannot write " + target_.string() + ": " + failure.message());
    }
  }

 private:
  fs::path target_;
  fs::path path_;
};

class Build {
 public:
  Build(const Compiler& compiler, const BuildPlan& plan, const Options& options)
      : compiler_(compiler), plan_(plan), options_(options) {}

  void compile_all() {
    const Clock::time_point start = Clock::now();
    const std::vector<std::size_t> order = longest_first(plan_.units);
    for_each_in_parallel(order.size(), [&](std::size_t i) { compile(plan_.units[order[i]]); });
    report_.compile_ms = milliseconds_since(start);
  }

  void link(const Linker& linker, const fs::path& library) {
    const Clock::time_point start = Clock::now();
    link_objects(linker, library);
    report_.link_ms = milliseconds_since(start);
  }

  [[nodiscard]] const BuildReport& report() const { return report_; }

 private:
  [[nodiscard]] fs::path file(const Unit& unit, const char* ending) const {
    return plan_.directory / (unit.name + ending);
  }

  void compile(const Unit& unit) {
    const bool stored = unit.shared || options_.objects.find || options_.objects.put;
    const Digest key = stored ? object_key(compiler_, unit) : Digest();
    if (unit.shared && is_ready(unit, key)) {
      finish(true);
      return;
    }
    std::optional<std::string> object;
    if (options_.objects.find) {
      object = options_.objects.find(key);
    }
    const fs::path object_path = file(unit, ".o");
    if (object) {
      write_plain(object_path, *object);
    } else {
      const fs::path source = file(unit, ".cpp");
      write_plain(source, unit.source);
      for (const DeviceImage& image : unit.images) {
        write_plain(plan_.directory / image.file,
                    compile_cuda(image.source, image.architecture, options_.nvrtc));
      }
      std::vector<std::string> arguments = unit.flags;
      if (!unit.images.empty()) {
        arguments.push_back("-Wa,-I" + plan_.directory.string());
      }
      arguments.insert(arguments.end(), {"-c", source.string(), "-o", object_path.string()});
      run_compiler(
          compiler_, arguments, options_.compiler_timeout, "compiling " + unit.name, source);
      if (options_.objects.put) {
        options_.objects.put(key, read_file(object_path));
      }
    }
    finish(object.has_value());
  }

  // Compiled with Kiln itself: a link to it is all that is needed.
  [[nodiscard]] bool is_ready(const Unit& unit, const Digest& key) const {
    std::error_code failure;
    const fs::path object = plan_.ready / (key.hex() + ".o");
    if (plan_.ready.empty() || !fs::is_regular_file(object, failure)) {
      return false;
    }
    fs::create_symlink(fs::absolute(object), file(unit, ".o"), failure);
    return !failure;
  }

  void finish(bool reused) {
    const std::lock_guard lock(mutex_);
    report_.objects_reused += reused ? 1 : 0;
    progress(Stage::kKernels, ++done_, static_cast<int>(plan_.units.size()));
  }

  void link_objects(const Linker& linker, const fs::path& library) {
    progress(Stage::kLink, 0, 1);
    if (library.has_parent_path()) {
      std::error_code failure;
      fs::create_directories(library.parent_path(), failure);
      if (failure) {
        throw Error(ErrorCode::kIo,
                    "cannot create " + library.parent_path().string() + ": " + failure.message());
      }
    }
    PendingFile pending(library);
    std::vector<std::string> arguments = linker.flags;
    arguments.insert(
        arguments.end(),
        {"-shared",
         "-Wl,--strip-debug",
         // Where a compiler brings these as archives, a model would export all of them.
         "-Wl,--exclude-libs,libstdc++.a:libgcc.a:libgcc_eh.a:libgomp.a",
         "-o",
         pending.path().string()});
    for (const Unit& unit : plan_.units) {
      arguments.push_back(file(unit, ".o").string());
    }
    arguments.insert(arguments.end(),
                     {"-Wl,--whole-archive", plan_.archive.string(), "-Wl,--no-whole-archive"});
    if (plan_.torch_library_dir.empty()) {
      const fs::path stand_in = plan_.directory / "libtorch_cpu.so";
      write_plain(stand_in, linker.libtorch_stand_in);
      arguments.insert(arguments.end(), {"-Wl,--no-as-needed", stand_in.string()});
    } else {
      arguments.insert(arguments.end(),
                       {"-L" + plan_.torch_library_dir.string(),
                        "-Wl,--no-as-needed",
                        "-ltorch_cpu",
                        "-Wl,--as-needed",
                        "-lc10"});
    }
    if (plan_.openmp) {
      arguments.emplace_back("-fopenmp");
    }
    run_compiler(
        compiler_, arguments, options_.compiler_timeout, "linking " + library.string(), {});
    pending.commit();
    progress(Stage::kLink, 1, 1);
  }

  void progress(Stage stage, int done, int total) const {
    if (options_.progress) {
      options_.progress({stage, done, total});
    }
  }

  const Compiler& compiler_;
  const BuildPlan& plan_;
  const Options& options_;
  std::mutex mutex_;
  int done_ = 0;
  BuildReport report_;
};

}  // namespace

Digest object_key(const Compiler& compiler, const Unit& unit) {
  Hasher hasher;
  hasher.update("kiln object 2\n").update(compiler.identity()).update("\n");
  hasher.update(unit.machine).update("\n");
  for (const std::string& flag : unit.flags) {
    hasher.update(flag).update("\n");
  }
  for (const DeviceImage& image : unit.images) {
    hasher.update(image.architecture).update("\n").update(image.source).update("\n");
  }
  return hasher.update(unit.source).finish();
}

BuildReport compile_units(const Compiler& compiler, const BuildPlan& plan, const Options& options) {
  Build build(compiler, plan, options);
  build.compile_all();
  return build.report();
}

BuildReport build_library(const Compiler& compiler,
                          const BuildPlan& plan,
                          const fs::path& library,
                          const Options& options) {
  // Meanwhile: trying a linker takes some tens of milliseconds, most of them waiting.
  std::future<const Linker&> linker = std::async(std::launch::async, [&]() -> const Linker& {
    return find_linker(compiler, options.compiler_timeout);
  });
  Build build(compiler, plan, options);
  build.compile_all();
  build.link(linker.get(), library);
  return build.report();
}

}  // namespace kiln::codegen
