from setuptools import setup

setup(cffi_modules=["dataplane_c/build_ffi.py:ffibuilder"])
