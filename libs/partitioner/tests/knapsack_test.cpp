#include "../src/knapsack.hpp"

#include <random>
#include <vector>

#include "kiln/testing/catch2.hpp"

namespace kiln::partitioner {
namespace {

double worth_of(const std::vector<Item>& items, const std::vector<bool>& taken, double capacity) {
  double size = 0;
  double worth = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    size += taken[i] ? items[i].size : 0;
    worth += taken[i] ? items[i].worth : 0;
  }
  CHECK(size <= capacity);
  return worth;
}

double best_by_trying_all(const std::vector<Item>& items, double capacity) {
  double best = 0;
  for (std::size_t choice = 0; choice < (std::size_t{1} << items.size()); ++choice) {
    double size = 0;
    double worth = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      size += (choice >> i & 1) != 0 ? items[i].size : 0;
      worth += (choice >> i & 1) != 0 ? items[i].worth : 0;
    }
    best = size <= capacity && worth > best ? worth : best;
  }
  return best;
}

TEST_CASE("few items are chosen as well as trying all would", "[partitioner][knapsack]") {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    std::vector<Item> items(10);
    for (Item& item : items) {
      item = {.size = static_cast<double>(1 + random() % 50),
              .worth = static_cast<double>(random() % 100)};
    }
    const double capacity = 100;  // A whole number of items' units to the step.

    CHECK(worth_of(items, fill_knapsack(items, capacity), capacity) ==
          best_by_trying_all(items, capacity));
  }
}

TEST_CASE("beyond the limit the worthiest per size are taken first", "[partitioner][knapsack]") {
  const std::vector<Item> items{
      {.size = 60, .worth = 60}, {.size = 50, .worth = 100}, {.size = 40, .worth = 90}};

  CHECK(fill_knapsack(items, 100, 2) == std::vector<bool>{false, true, true});
  CHECK(fill_knapsack(items, 45, 2) == std::vector<bool>{false, false, true});
}

TEST_CASE("nothing but what has no size fits into nothing", "[partitioner][knapsack]") {
  const std::vector<Item> items{{.size = 1, .worth = 1}, {.size = 0, .worth = 1}};

  CHECK(fill_knapsack(items, 0) == std::vector<bool>{false, true});
}

}  // namespace
}  // namespace kiln::partitioner
