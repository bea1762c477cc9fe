"""gmlp_timm_random.safetensors: timm's gMLP with random weights. In a fresh one (gmlp_timm) the head
is 0 and the spatial matrices nearly so: the output is 0, and most gradients are.

    python make_gmlp_timm_random.py OUT      needs torch, timm, safetensors, transformers"""
import sys
import torch, torch.nn.functional as F
from timm.layers import GatedMlp
from timm.models.mlp_mixer import MlpMixer, SpatialGatingBlock
from make_reference import write

torch.manual_seed(7)
torch.set_num_threads(1)
model = MlpMixer(num_classes=5, img_size=15, patch_size=5, num_blocks=3, embed_dim=10, mlp_ratio=6,
                 block_layer=SpatialGatingBlock, mlp_layer=GatedMlp)
with torch.no_grad():
    for parameter in model.parameters(): parameter.normal_(0, .3)
    for parameter in model.stem.parameters(): parameter.mul_(.003)   # so that the norms' eps counts
write(sys.argv[1], 'gmlp_timm_random', model, [torch.randn(3, 3, 15, 15)], F.cross_entropy, torch.randint(0, 5, (3,)),
      dict(patch=5, dim=10, blocks=3, mlp_ratio=6, names='timm gmlp_ti16_224'))
