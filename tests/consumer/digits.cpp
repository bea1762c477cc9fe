// Reads MNIST's and CIFAR-100's files, here with drawn pictures. With the real files in these
// folders a program needs only the lines below "a program".
#include <tern/tern.h>

#include <filesystem>
#include <fstream>

using namespace tern;

/// Bars in ten places, as an idx file of pictures and an idx file of labels.
void write_mnist(const std::string& name, int64_t count, Rng& rng) {
  auto number = [](int64_t n) {
    return std::string{char(n >> 24), char(n >> 16), char(n >> 8), char(n)};
  };
  std::ofstream images("mnist/" + name + "-images-idx3-ubyte", std::ios::binary);
  std::ofstream labels("mnist/" + name + "-labels-idx1-ubyte", std::ios::binary);
  images << number(0x803) << number(count) << number(28) << number(28);
  labels << number(0x801) << number(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t digit = rng.below(10);
    labels << static_cast<char>(digit);
    for (int64_t p = 0; p < 784; ++p) {
      bool bar = p % 28 / 2 == digit + 2;
      images << static_cast<char>(rng.below(128) + (bar ? 100 : 0));
    }
  }
}

void write_cifar100(const std::string& file, int count) {
  std::ofstream out("cifar100/" + file, std::ios::binary);
  for (int i = 0; i < count; ++i)
    out << static_cast<char>(i % 20) << static_cast<char>(i % 100) << std::string(3072, char(i));
}

int main() {
  Rng rng(3);
  std::filesystem::create_directories("mnist");
  std::filesystem::create_directories("cifar100");
  write_mnist("train", 600, rng), write_mnist("t10k", 200, rng);
  write_cifar100("train.bin", 200), write_cifar100("test.bin", 100);

  // a program
  datasets::Mnist digits = datasets::load_mnist("mnist");
  auto pixels = [](const Tensor& images) { return flatten(images, 1).to(DType::f32) / 255; };
  nn::Linear model(784, 10, rng);
  optim::Lion optimizer(nn::named_parameters(model), {.lr = 1e-3});
  datasets::Dataset<int64_t> numbers(digits.train_images.size(0), [](int64_t i) { return i; });
  auto loader = datasets::dataset_loader(
      numbers, [](const std::vector<int64_t>& picked) { return tensor(picked); }, {.batch = 50});
  for (int epoch = 0; epoch < 10; ++epoch)
    for (Tensor& picked : loader) {
      Tensor x = pixels(index_select(digits.train_images, 0, picked));
      cross_entropy(model(x), index_select(digits.train_labels, 0, picked)).backward();
      optimizer.step(), optimizer.zero_grad();
    }
  Tensor guess = argmax(model(pixels(digits.test_images)), 1);
  double right = mean(eq(guess, digits.test_labels).to(DType::f32)).item();

  datasets::LabelledPictures cifar = datasets::load_labelled_pictures("cifar100", 32);
  auto images = datasets::labelled_loader(cifar.train.dataset(cifar.form), cifar.form, {});
  datasets::Batch batch = *images.next();
  fmt::print("{} of the digits are right; a batch of CIFAR-100 is {}\n", right,
             batch.images.shape());
  return right > 0.9 && batch.images.shape() == Shape{32, 3, 32, 32} ? 0 : 1;
}
