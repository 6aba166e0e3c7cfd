package coding

import (
	"crypto/sha256"
	"fmt"
)

func sha256Hex(content string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(content))) }
