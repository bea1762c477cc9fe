// Work beside the steps of a training that ranks share, such as the batches of an evaluation: each
// rank does some items of it and gets the results of all. What is added up in the order of the
// items has the same bits on any number of ranks.
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

/// Calls work(0) to work(count - 1), each on one rank, a rank's own in ascending order. Returns all
/// results in their order, on every rank. An item that returns nothing (after a signal) stops all
/// ranks within a few items: they return nothing. What work throws on one rank, all throw
/// (World::together). A `world` of nullptr is this process alone. All ranks call it with the same
/// `count`. `what` is for errors: "the validation".
std::optional<std::vector<std::string>> share(
    World* world, const std::string& what, int64_t count,
    const std::function<std::optional<std::string>(int64_t item)>& work);

/// The same where a result is a list of numbers.
using Numbers = std::vector<double>;
std::optional<std::vector<Numbers>> share_numbers(
    World* world, const std::string& what, int64_t count,
    const std::function<std::optional<Numbers>(int64_t item)>& work);

/// Runs body on every rank, however long it takes on each: ranks that are through wait for the
/// others beyond the world's timeout, as long as their processes answer. For what is done before
/// the first step, such as loading data. Body makes no calls of the world. What it throws on one
/// rank, all throw (World::together).
void take_time(World& world, const std::string& what, const std::function<void()>& body);

}  // namespace tern::dist
