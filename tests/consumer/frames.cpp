// Batches of a program's own struct, with structs of tensors inside; no collate function is needed.
#include <tern/tern.h>

#include <cmath>

using namespace tern;

struct Pose {
  Tensor position, rotation;  // (3), (2, 2)
  static void fields(auto& p, auto&& visit) {
    visit("position", p.position), visit("rotation", p.rotation);
  }
};
struct Frame {
  Tensor image;  // (1, 6, 6)
  Pose pose;
  std::vector<Pose> others;  // the same number in every frame
  static void fields(auto& f, auto&& visit) {
    visit("image", f.image), visit("pose", f.pose), visit("others", f.others);
  }
};

Pose random_pose(Rng& rng) {
  double angle = rng.uniform(0, 6.28);
  double c = std::cos(angle), s = std::sin(angle);
  return {randn({3}, rng), tensor({c, -s, s, c}, {2, 2})};
}
Frame random_frame(int64_t i) {
  Rng rng = Rng(5).stream(i);
  return {randn({1, 6, 6}, rng), random_pose(rng), {random_pose(rng), random_pose(rng)}};
}

int main() {
  datasets::Dataset<Frame> frames(100, random_frame);
  auto loader =
      datasets::dataset_loader(frames, datasets::Stack{}, {.batch = 16, .seed = 1, .workers = 2});
  bool fit = true;
  for (Frame& batch : loader) {  // the same struct, with a new first axis in every tensor
    int64_t b = batch.image.size(0);
    fit &= batch.image.shape() == Shape{b, 1, 6, 6} && batch.others.size() == 2;
    Tensor turned = matmul(batch.others[1].rotation, transpose(batch.others[1].rotation, 1, 2));
    fit &= batch.pose.position.shape() == Shape{b, 3} && all_close(turned, eye(2), 0, 1e-6);
  }
  // An error about frames that do not fit names the field, the sample and the shapes.
  std::vector<Frame> wrong = {random_frame(0), random_frame(1)};
  wrong[1].pose.position = ones({4});
  try {
    datasets::Stack{}(wrong);
    return 1;
  } catch (const Error& e) {
    fmt::print("{}\n", e.what());
  }
  return fit ? 0 : 1;
}
