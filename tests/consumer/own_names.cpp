// A program that writes `using namespace tern` and has functions and types of its own with common
// names: tern's root namespace has none of these names.
#include <tern/tern.h>

#include <string>
#include <vector>

using namespace tern;

struct Node {
  int value;
  std::vector<Node> children;
};
struct Edge {
  Node from, to;
};
struct Label {
  std::string text;
};
struct Storage {
  std::vector<float> numbers;
};
struct Extent {
  int first, last;
};
struct Counted {
  int count;
};
template <class T>
struct Ref {
  T* to;
};
using Offsets = std::vector<int>;
using Piece = std::string;
enum class State { ready, running };
struct Loops {};
struct Batch {};
struct Block {};
struct Buffer {};
struct Config {};
struct Context {};
struct Entry {};
struct Event {};
struct Graph {};
struct Heir {};
struct Item {};
struct Job {};
struct Key {};
struct Line {};
struct Model {};
struct Options {};
struct Path {};
struct Place {};
struct Plan {};
struct Product {};
struct Recipe {};
struct Result {};
struct Sample {};
struct Slot {};
struct Span {};
struct Step {};
struct Strip {};
struct Task {};
struct Token {};
struct Value {};
struct Weights {};
struct Worker {};

int data = 7;
Tensor decode(const Tensor& x) { return x * 2; }
Tensor train(const Tensor& x) { return x + data; }
std::string cpu() { return "mine"; }
int accuracy(int right, int all) { return 100 * right / all; }
void append_to_file(const std::string&, std::string_view) {}
int area(const Extent& e) { return e.last - e.first; }
int ceil_div(int a, int b) { return (a + b - 1) / b; }
int count(const Node& n) {
  int nodes = 1;
  for (const Node& child : n.children) nodes += count(child);
  return nodes;
}
int dot_product(const Offsets& a, const Offsets& b) { return a.at(0) * b.at(0); }
void fill(Storage& s, float v) { s.numbers.assign(s.numbers.size(), v); }
int index(int row, int column, int width) { return row * width + column; }
std::string join(const Piece& a, const Piece& b) { return a + " " + b; }
Label label(const Node& n) { return {std::to_string(n.value)}; }
int length(const Piece& s) { return static_cast<int>(s.size()); }
int pool(const Offsets& numbers) { return numbers.front(); }
int position(int) { return 0; }
int release(int handle) { return -handle; }
int seek(int at) { return at; }
int size(const Storage& s) { return static_cast<int>(s.numbers.size()); }
Piece split(const Piece& s, char at) { return s.substr(0, s.find(at)); }
int tile_count(int rows, int tile) { return ceil_div(rows, tile); }
Piece trim(const Piece& s) { return s.substr(s.find_first_not_of(' ')); }
int update(Counted& c) { return ++c.count; }
int work(State s) { return s == State::running ? 1 : 0; }

int main() {
  const Tensor x = ones({2, 3});
  Node node{1, {Node{2, {}}}};
  Storage storage{{1, 2}};
  Counted counted{0};
  Ref<Node> ref{&node};
  fill(storage, 3);
  append_to_file("log", "line");
  const bool mine = cpu() == "mine" && accuracy(1, 2) == 50 && area({1, 3}) == 2 &&
                    count(*ref.to) == 2 && dot_product({2}, {3}) == 6 && size(storage) == 2 &&
                    index(1, 2, 3) == 5 && label(node).text == "1" && length(join("a", "b")) == 3 &&
                    pool({4}) == 4 && position(1) == 0 && release(1) == -1 && seek(1) == 1 &&
                    split("a b", ' ') == "a" && tile_count(5, 2) == 3 && trim(" a") == "a" &&
                    update(counted) == 1 && work(State::running) == 1;
  return mine && sum(decode(train(x))).item() == 96 ? 0 : 1;
}
