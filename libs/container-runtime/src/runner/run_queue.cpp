#include "run_queue.hpp"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "kiln/base/error.hpp"

namespace kiln::container_runtime {
namespace {

// More calls at once than cores only wait for each other.
std::size_t useful(std::size_t concurrency) {
  return std::min<std::size_t>(concurrency, std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

RunQueue::RunQueue(std::size_t concurrency, std::size_t capacity)
    : capacity_(capacity == 0 ? 1 : capacity),
      // TBB counts the calling thread as a worker; here it only queues.
      workers_(tbb::global_control::max_allowed_parallelism,
               std::max(useful(concurrency) + 1,
                        tbb::global_control::active_value(
                            tbb::global_control::max_allowed_parallelism))),
      arena_(static_cast<int>(useful(concurrency)), /*reserved_for_masters=*/0) {}

RunQueue::~RunQueue() {
  cancel();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return tickets_ == 0; });
}

std::future<Tensors> RunQueue::push(Call call, Tensors inputs) {
  std::future<Tensors> result;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return jobs_.size() < capacity_; });
    jobs_.push_back({std::move(call), std::move(inputs), {}});
    result = jobs_.back().result.get_future();
    ++tickets_;
  }
  arena_.enqueue([this] { run_next(); });
  return result;
}

std::vector<Tensors> RunQueue::run_all(const Call& call, const std::vector<Tensors>& inputs) {
  std::vector<Tensors> results(inputs.size());
  arena_.execute([&] {
    tbb::parallel_for(
        std::size_t{0},
        inputs.size(),
        [&](std::size_t i) { results[i] = counted_call(call, Tensors(inputs[i])); },
        tbb::simple_partitioner());
  });
  return results;
}

std::size_t RunQueue::cancel() {
  std::deque<Job> cancelled;
  {
    const std::lock_guard lock(mutex_);
    std::swap(cancelled, jobs_);
    changed_.notify_all();
  }
  for (Job& job : cancelled) {
    job.result.set_exception(std::make_exception_ptr(
        Error(ErrorCode::kInvalidArgument, "the call was cancelled before it ran")));
  }
  return cancelled.size();
}

RunStatistics RunQueue::statistics() const {
  const std::lock_guard lock(mutex_);
  RunStatistics result = counts_;
  result.queued = jobs_.size();
  return result;
}

void RunQueue::run_next() {
  std::optional<Job> job;
  {
    const std::lock_guard lock(mutex_);
    if (!jobs_.empty()) {  // else cancelled
      job = std::move(jobs_.front());
      jobs_.pop_front();
      changed_.notify_all();
    }
  }
  if (job) {
    try {
      job->result.set_value(counted_call(job->call, std::move(job->inputs)));
    } catch (...) {
      job->result.set_exception(std::current_exception());
    }
  }
  const std::lock_guard lock(mutex_);
  --tickets_;
  changed_.notify_all();
}

Tensors RunQueue::counted_call(const Call& call, Tensors&& inputs) {
  struct Count {
    RunQueue& queue;
    const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    bool ok = false;
    explicit Count(RunQueue& owner) : queue(owner) {
      const std::lock_guard lock(queue.mutex_);
      ++queue.counts_.running;
    }
    ~Count() {
      const std::lock_guard lock(queue.mutex_);
      --queue.counts_.running;
      ++queue.counts_.finished;
      queue.counts_.latency.add(std::chrono::steady_clock::now() - start);
      queue.counts_.failed += ok ? 0 : 1;
    }
  } count(*this);
  Tensors outputs = call(std::move(inputs));
  count.ok = true;
  return outputs;
}

}  // namespace kiln::container_runtime
