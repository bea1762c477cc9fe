// Divides work outside of training steps among the ranks, such as the batches of an evaluation.
// Each rank does some of the items and gets the results of all. A sum in the order of the items has
// the same bits on any number of ranks.
//
//   auto losses = dist::share_numbers(&world, "the validation", batches, [&](int64_t batch) {
//     return dist::Numbers{loss_of(batch)};
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tern/dist/world.h"

namespace tern::dist {

/// Calls work(0) to work(count - 1), each on one rank, on each rank in ascending order. Returns all
/// results in their order, on every rank. If an item returns nothing (after a signal), all ranks
/// stop within a few items and return nothing. An exception of work on one rank is thrown on all
/// (World::together). With `world` = nullptr this process does all items. All ranks must give the
/// same `count`. `what` is for errors: "the validation".
std::optional<std::vector<std::string>> share(
    World* world, const std::string& what, int64_t count,
    const std::function<std::optional<std::string>(int64_t item)>& work);

/// The same for results that are lists of numbers.
using Numbers = std::vector<double>;
std::optional<std::vector<Numbers>> share_numbers(
    World* world, const std::string& what, int64_t count,
    const std::function<std::optional<Numbers>(int64_t item)>& work);

/// Runs body on every rank, however long it takes. Ranks that have finished wait for the others
/// beyond the world's timeout, as long as those processes answer. Use it for work before the first
/// step, such as loading data. Body must not call the world. An exception of body on one rank is
/// thrown on all (World::together).
void take_time(World& world, const std::string& what, const std::function<void()>& body);

}  // namespace tern::dist
