// Sends bytes between ranks by MPI. Cuts messages at 1 GiB, since MPI counts with int.
#include <fmt/core.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <list>
#include <string>
#include <thread>

#include "tern/core/base/error.h"
#include "tern/dist/detail/link.h"
#include "tern/dist/world.h"

namespace tern::dist::detail {
namespace {

constexpr int kData = 1, kTold = 2;  // tags
constexpr size_t kLargestMessage = size_t{1} << 30;

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(fmt::format("World: {}: {}", call, std::string(text, static_cast<size_t>(length))));
}

class MpiLink final : public Link {
 public:
  MpiLink() {
    int level = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
              "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
    const int64_t launched = launched_ranks();
    check(
        launched <= 1 || launched == size_,
        "World: {} ranks were started, but each sees only itself: mpirun belongs to a different "
        "MPI from the one that tern was built with; start the program with the mpirun of that MPI",
        launched);
    open_.resize(static_cast<size_t>(size_));
  }
  // Leaves transfers that will never end to MPI. If MPI waits too long for them or for other ranks,
  // World ends this process.
  ~MpiLink() override {
    for (MPI_Request& request : requests_) MPI_Request_free(&request);
    MPI_Finalize();
  }

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }

  void send(int64_t to, std::span<const std::byte> bytes) override {
    for (size_t at = 0; at < bytes.size(); at += kLargestMessage) {
      const int n = static_cast<int>(std::min(kLargestMessage, bytes.size() - at));
      check_mpi(MPI_Isend(bytes.data() + at, n, MPI_BYTE, static_cast<int>(to), kData,
                          MPI_COMM_WORLD, begun({to})),
                "MPI_Isend");
    }
  }
  void receive(int64_t from, std::span<std::byte> bytes) override {
    for (size_t at = 0; at < bytes.size(); at += kLargestMessage) {
      const int n = static_cast<int>(std::min(kLargestMessage, bytes.size() - at));
      check_mpi(MPI_Irecv(bytes.data() + at, n, MPI_BYTE, static_cast<int>(from), kData,
                          MPI_COMM_WORLD, begun({from, n})),
                "MPI_Irecv");
    }
  }
  std::vector<int64_t> ended() override {
    std::vector<int64_t> ranks;
    if (requests_.empty()) return ranks;
    std::vector<int> which(requests_.size());
    std::vector<MPI_Status> statuses(requests_.size());
    int count = 0;
    check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                           which.data(), statuses.data()),
              "MPI_Testsome");
    for (int i = 0; i < count; ++i) {
      const Transfer& t = transfers_[static_cast<size_t>(which[i])];
      int bytes = 0;
      if (t.expected >= 0) MPI_Get_count(&statuses[static_cast<size_t>(i)], MPI_BYTE, &bytes);
      check(t.expected < 0 || bytes == t.expected,
            "World: rank {} sent {} bytes where {} were expected: the ranks do not make the same "
            "calls",
            t.rank, bytes, t.expected);
      --open_[static_cast<size_t>(t.rank)];
      ranks.push_back(t.rank);
    }
    size_t kept = 0;
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      transfers_[kept++] = transfers_[i];
    }
    requests_.resize(kept);
    transfers_.resize(kept);
    return ranks;
  }
  const std::vector<int64_t>& open() const override { return open_; }
  size_t pending() const override { return requests_.size(); }

  void tell(int64_t to, const std::string& text) override {
    told_texts_.push_back(text);  // MPI may read it until MPI_Finalize
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(told_texts_.back().data(), static_cast<int>(text.size()), MPI_BYTE,
                        static_cast<int>(to), kTold, MPI_COMM_WORLD, &request),
              "MPI_Isend");
    check_mpi(MPI_Request_free(&request), "MPI_Request_free");
  }
  std::optional<Told> told() override {
    int there = 0, bytes = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kTold, MPI_COMM_WORLD, &there, &status), "MPI_Iprobe");
    if (!there) return std::nullopt;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    Told told{status.MPI_SOURCE, std::string(static_cast<size_t>(bytes), '\0')};
    check_mpi(MPI_Recv(told.text.data(), bytes, MPI_BYTE, status.MPI_SOURCE, kTold, MPI_COMM_WORLD,
                       MPI_STATUS_IGNORE),
              "MPI_Recv");
    return told;
  }

  [[noreturn]] void abort(int code) override {
    // MPI_Abort may hang if ranks do not answer: end this process in any case.
    std::thread([code] {
      std::this_thread::sleep_for(std::chrono::seconds(5));
      _exit(code);
    }).detach();
    MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
  }

 private:
  struct Transfer {
    int64_t rank;
    int expected = -1;  // bytes to receive; -1: a send
  };

  // Registers a transfer and returns where MPI writes its request.
  MPI_Request* begun(Transfer transfer) {
    transfers_.push_back(transfer);
    ++open_[static_cast<size_t>(transfer.rank)];
    return &requests_.emplace_back(MPI_REQUEST_NULL);
  }

  int rank_ = 0, size_ = 1;
  std::vector<MPI_Request> requests_;
  std::vector<Transfer> transfers_;  // by request
  std::vector<int64_t> open_;        // by rank: number of requests
  std::list<std::string> told_texts_;
};

}  // namespace

std::unique_ptr<Link> open_link() { return std::make_unique<MpiLink>(); }

}  // namespace tern::dist::detail
