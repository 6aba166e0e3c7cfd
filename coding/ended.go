package coding

// Ended gives a channel that is closed when a session ends. It is nil, which never is, for
// a session that is not known.
func (s *Suite) Ended(id string) <-chan struct{} {
	if j := s.table.Find(id); j != nil {
		return j.Done()
	}
	return nil
}
