"""Compression of what travels."""

import torch


class Compressor:
    """`compress` returns the tensor that travels and a context, with which `decompress` makes the result. Derive from it for a compression of your own."""

    @staticmethod
    def compress(tensor):
        """Returns (tensor that travels, context)."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor, ctx):
        """Returns the result in the original dtype."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """The tensor itself travels."""

    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, ctx):
        return tensor


class FP16Compressor(Compressor):
    """Floating-point tensors travel and are reduced in float16."""

    dtype = torch.float16

    @classmethod
    def compress(cls, tensor):
        return (tensor.to(cls.dtype) if tensor.is_floating_point() else tensor), tensor.dtype

    @staticmethod
    def decompress(tensor, ctx):
        return tensor.to(ctx)


class BF16Compressor(FP16Compressor):
    """Floating-point tensors travel and are reduced in bfloat16, which Horovod does not have."""

    dtype = torch.bfloat16


class Compression:
    """`Compression.none`, `Compression.fp16`, and here `Compression.bf16`, for the arguments `compression`."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
