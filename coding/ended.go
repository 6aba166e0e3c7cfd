package coding

// Ended gives a channel that is closed when a session ends. It is nil, which never is, for
// a session that is not known.
func (s *Suite) Ended(id string) <-chan struct{} {
	if j := s.table.Find(id); j != nil {
		return j.Done()
	}
	return nil
}

// Hurry takes the grace from all that runs: it is sent SIGKILL at once. It does not wait; the
// end is seen and proven as ever. It is for a user who says a second time that all has to
// end, after Close was called.
func (s *Suite) Hurry() { s.table.Hurry() }
