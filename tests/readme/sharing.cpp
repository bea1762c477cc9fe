// Foreign memory as tensors and tensors as spans, as docs/sharing.md shows them.
#include <fmt/core.h>
#include <tern/tern.h>

#include <memory>
#include <string>
#include <vector>

using namespace tern;

namespace {

struct Camera {
  std::vector<float> frames = std::vector<float>(480 * 640, 0.5f);
  int returned = 0;
  float* next() { return frames.data(); }
  void reuse(float* frame) { returned += frame == frames.data(); }
};

void shared_vector() {
  std::vector<float> samples = {1, 2, 3, 4, 5, 6};
  Tensor x = Tensor::wrap(samples.data(), {2, 3});
  x *= 10;          // samples[0] is 10 now
  samples[5] = -1;  // and x[1][2] is -1
  check(samples[0] == 10 && x[1][2].item() == -1, "both sides");

  const Tensor weight = ones({2, 3}).set_requires_grad();
  const Tensor loss = sum(x * weight);
  x.increment_version();  // before or after the write, on the thread that computes
  samples[0] = 7;
  bool noticed = false;
  try {
    loss.backward();
  } catch (const Error&) {
    noticed = true;
  }
  check(noticed, "an announced write");

  const Tensor probabilities = softmax(x, 1).contiguous();
  for (float p : probabilities.span<float>()) fmt::print("{:.2f} ", p);
  std::vector<float> room(6);
  float* p = room.data();
  Tensor::wrap(p, x.shape()) = x;
  check(room == x.to_vector<float>(), "filled");
}

void read_only() {
  bool refused = false;
  try {
    const std::vector<float> table = {1, 2, 3};
    Tensor y = Tensor::wrap(table.data(), {3});
    y *= 2;  // Error: ... lies in read-only memory
  } catch (const Error& e) {
    refused = std::string(e.what()).find("read-only memory") != std::string::npos;
  }
  check(refused, "const");
}

void strides() {
  std::vector<float> image(3 * 8, -1.f);
  for (size_t row = 0; row < 3; ++row) image[row * 8] = static_cast<float>(row);
  // 3 rows of 5 numbers, each followed by 3 unused ones; the last row first.
  const float* bottom_row = image.data() + 2 * 8;
  Tensor upright = Tensor::wrap(bottom_row, {3, 5}, {.strides = Strides{-8, 1}});
  check(upright[0][0].item() == 2 && upright[2][0].item() == 0, "upright");
}

void owner() {
  Camera camera;
  {
    float* frame = camera.next();  // 480 x 640 numbers
    const auto reuse = [&camera, frame](void*) { camera.reuse(frame); };
    auto give_back = std::shared_ptr<void>(nullptr, reuse);
    Tensor picture = Tensor::wrap(frame, {480, 640}, {.owner = give_back});
    give_back.reset();
    check(mean(picture).item() == 0.5 && camera.returned == 0, "kept");
  }
  check(camera.returned == 1, "returned");
}

}  // namespace

int main() {
  shared_vector();
  read_only();
  strides();
  owner();
}
