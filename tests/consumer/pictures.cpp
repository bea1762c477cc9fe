// A classifier for a folder of pictures of any size, PNG or JPEG, with one subfolder per class.
#include <tern/tern.h>

#include <filesystem>

using namespace tern;
namespace fs = std::filesystem;

/// A picture with horizontal (`across`) or vertical stripes of random colours, widths and sizes.
datasets::Picture stripes(bool across, Rng& rng) {
  datasets::Picture p{24 + rng.below(40), 24 + rng.below(40), {}};
  int64_t width = 2 + rng.below(4), shift = rng.below(8);
  uint8_t dark = static_cast<uint8_t>(rng.below(100));
  for (int64_t y = 0; y < p.height; ++y)
    for (int64_t x = 0; x < p.width; ++x) {
      bool light = ((across ? y : x) + shift) / width % 2;
      for (int c = 0; c < 3; ++c) p.rgb.push_back(light ? 230 : dark);
    }
  return p;
}

struct Model {
  nn::Conv2d conv;
  nn::Linear out;
  explicit Model(Rng& rng) : conv(3, 8, 5, rng, {.stride = 2}), out(8, 2, rng) {}
  Tensor operator()(const Tensor& x) const { return out(mean(relu(conv(x)), {2, 3})); }
  static void fields(auto& m, auto&& visit) { visit("conv", m.conv), visit("out", m.out); }
};

int main() {
  Rng rng(1);
  fs::remove_all("stripes");
  for (const char* part : {"train", "valid"})
    for (const char* name : {"across", "down"}) {
      fs::path folder = fs::path("stripes") / part / name;
      fs::create_directories(folder);
      for (int i = 0; i < 32; ++i)
        datasets::save_png((folder / (std::to_string(i) + ".png")).string(),
                           stripes(name[0] == 'a', rng));
    }

  datasets::PictureFolder train = datasets::open_picture_folder("stripes/train");
  datasets::PictureFolder valid = datasets::open_picture_folder("stripes/valid");
  auto loader = datasets::picture_loader(
      train.dataset(),
      {.order = {.batch = 16, .workers = 2}, .size = 32, .augment = true, .scale = {0.5, 1}});
  auto test = datasets::picture_loader(valid.dataset(),
                                       {.order = {.batch = 64, .shuffle = false}, .size = 32});
  Model model(rng);
  optim::AdamW optimizer(nn::named_parameters(model), {.lr = 1e-2});
  for (int epoch = 0; epoch < 15; ++epoch)
    for (datasets::Batch& batch : loader) {
      cross_entropy(model(batch.images), batch.labels).backward();
      optimizer.step(), optimizer.zero_grad();
    }
  datasets::Batch batch = *test.next();
  double right = mean(eq(argmax(model(batch.images), 1), batch.labels).to(DType::f32)).item();
  fmt::print("{} and {}: {} right\n", valid.class_names[0], valid.class_names[1], right);
  return right > 0.9 ? 0 : 1;
}
