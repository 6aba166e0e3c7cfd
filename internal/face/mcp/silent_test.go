package mcp

import "github.com/belayhq/belay/coding"

// silent is the part of a suite that never has a completion message.
type silent struct{}

func (silent) Waiting(coding.Boundary) int                                { return 0 }
func (silent) TakeBeside(coding.Boundary, []string, int) []coding.Message { return nil }
func (silent) Delivered([]coding.Message)                                 {}
func (silent) Return([]coding.Message)                                    {}
func (silent) Observed([]string)                                          {}
