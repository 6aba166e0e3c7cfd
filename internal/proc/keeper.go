package proc

import "time"

// keeperGrace is what programs get between TERM and KILL when this process is gone: all is to be
// over within a second. Hand gives more.
const keeperGrace = leftoverGrace

// maxHand bounds the grace of Hand.
const maxHand = time.Minute
