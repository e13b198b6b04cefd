"""Names that look alike (UTS 39).

The table is from Unicode's confusables.txt, in the version of the package confusable_homoglyphs 3.3.1. It has the
characters of the scripts that UAX 31 recommends for identifiers, and punctuation, if they look like ASCII text and NFKD
does not fold them. Other characters are not needed, since a name is written in one script (`identity.names`).
"""

from __future__ import annotations

import unicodedata

LOOK_ALIKES = {
    "!": "\u01c3",
    "&": "\ua778",
    "'": "\u055a\u055d\u2018\u2019\u201b\u2032\u2035\ua78c",
    "''": "\u1cd3\u201c\u201d\u201f\u3003",
    "'B": "\u0181",
    "'D": "\u018a",
    "'P": "\u01a4",
    "'T": "\u01ac",
    "'Y": "\u01b3",
    "(": "\u2768\u2772\u3014\ufd3e",
    "((": "\u2e28",
    ")": "\u2769\u2773\u3015\ufd3f",
    "))": "\u2e29",
    "*": "\u204e",
    "+": "\u16ed",
    ",": "\u201a",
    "-": "\u2010\u2012\u2013\u2043",
    "-.": "\ua4fe",
    ".": "\ua60e",
    "/": "\u1735\u2041\u30ce\u4e3f",
    "2": "\u01a7\ua644\ua75a",
    "3": "\u01b7\u021c\u0417\u04e0\ua76a\ua7ab",
    "5": "\u01bc",
    "6": "\u0431",
    "8": "\u0222\u0223\u09ea\u0a6a",
    "9": "\u09ed\u0a67\u0b68\u0d6d\ua76e",
    ":": "\u0589\u16ec\u1803\u1809\u205a",
    "<": "\u2039\u276e",
    "=": "\u1400\u2e40\u30a0\ua4ff",
    ">": "\u203a\u276f",
    "?": "\u0241\u0294\u097d",
    "A": "\u0391\u0410",
    "AA": "\ua732",
    "AE": "\xc6\u04d4",
    "AO": "\ua734",
    "AU": "\ua736",
    "AV": "\ua738\ua73a",
    "AY": "\ua73c",
    "B": "\u0392\u0412\ua7b4",
    "C": "\u0421",
    "C'": "\u0187",
    "E": "\u0395\u0415",
    "F": "\u03dc\ua798",
    "G": "\u050c",
    "G'": "\u0193",
    "H": "\u0397\u041d",
    "J": "\u037f\u0408\ua7b2",
    "K": "\u039a\u041a",
    "K'": "\u0198",
    "M": "\u039c\u03fa\u041c",
    "N": "\u039d",
    "O": "\u039f\u041e\u0555\u09e6\u0b20\u0b66\u12d0",
    "OE": "\u0152",
    "OO": "\ua698\ua74e",
    "P": "\u03a1\u0420",
    "R": "\u01a6",
    "S": "\u0405\u054f",
    "T": "\u03a4\u0422",
    "T3": "\ua728",
    "U": "\u054d\u1200",
    "V": "\u0474",
    "W": "\u051c",
    "X": "\u03a7\u0425\ua7b3",
    "Y": "\u03a5\u0423\u04ae",
    "Z": "\u0396",
    "\\": "\u4e36",
    "\\\\": "\u2cf9",
    "a": "\u0251\u03b1\u0430",
    "aa": "\ua733",
    "ae": "\xe6\u04d5",
    "ao": "\ua735",
    "au": "\ua737",
    "av": "\ua739\ua73b",
    "ay": "\ua73d",
    "b": "\u0184\u042c",
    "bl": "\u042b",
    "c": "\u0441\u1d04",
    "d": "\u0501",
    "dz": "\u02a3",
    "e": "\u0435\u04bd\uab32",
    "f": "\u0584\u1e9d\ua799\uab35",
    "g": "\u018d\u0261\u0581\u1d83",
    "h": "\u04bb\u0570",
    "i": "\u0131\u0269\u026a\u03b9\u0456\u04cf\ua647",
    "j": "\u03f3\u0458",
    "l": "\u0196\u01c0\u0399\u0406\u04c0",
    "lO": "\u042e",
    "ll": "\u01c1\u2016",
    "ls": "\u02aa",
    "lz": "\u02ab",
    "n": "\u0578\u057c",
    "o": "\u03bf\u03c3\u043e\u0585\u0966\u0a66\u0ae6\u0be6\u0c66\u0ce6"
    "\u0d20\u0d66\u0e50\u0ed0\u101d\u1040\u10ff\u1d0f\u1d11\uab3d",
    "o/0": "\u066a",
    "o/00": "\u0609\u2030",
    "o/000": "\u060a\u2031",
    "oe": "\u0153",
    "oo": "\ua699\ua74f",
    "p": "\u03c1\u0440",
    "q": "\u051b\u0563\u0566",
    "r": "\u0433\u1d26\uab47\uab48",
    "r'": "\u0491",
    "s": "\u01bd\u0455\ua731",
    "tf": "\ua777",
    "ts": "\u02a6",
    "u": "\u028b\u03c5\u057d\u1d1c\ua79f\uab4e\uab52",
    "ue": "\u1d6b",
    "uo": "\uab63",
    "v": "\u03bd\u0475\u1d20",
    "w": "\u026f\u0461\u051d\u0561\u1d21",
    "x": "\u0445\u166e",
    "y": "\u0263\u028f\u03b3\u0443\u04af\u10e7\u1d8c\u1eff\uab5a",
    "z": "\u1d22",
    "{": "\u2774",
    "}": "\u2775",
    "~": "\u2053\u301c",
}
"""The characters that look like an ASCII text."""

ASCII_LOOK_ALIKES = {"I": "l", "1": "l", "|": "l", "0": "O", "m": "rn"}
"""The ASCII text that an ASCII character looks like."""

_FROM_OTHERS = str.maketrans({look: text for text, looks in LOOK_ALIKES.items() for look in looks})
_FROM_ASCII = str.maketrans(ASCII_LOOK_ALIKES)


def make_skeletons(name: str) -> tuple[str, str]:
    """Return two texts for a name. Names that look alike have the first in common, or the second, which ignores
    case."""
    text = unicodedata.normalize("NFKD", " ".join(unicodedata.normalize("NFKD", name).translate(_FROM_OTHERS).split()))
    return text.translate(_FROM_ASCII), text.casefold()
