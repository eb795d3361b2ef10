"""What the project says of itself."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def version():
    """Of programs, chart and images."""
    with open(os.path.join(ROOT, 'CMakeLists.txt')) as f:
        return re.search(r'^project\(trainyard VERSION (\S+)', f.read(), re.M).group(1)
