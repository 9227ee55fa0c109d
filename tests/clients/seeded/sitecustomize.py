"""The tool's generated tests hold random values: the same ones in each run. (Python imports this module when it starts.)"""

import random

random.seed(0)
