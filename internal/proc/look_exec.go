//go:build linux || darwin || freebsd

package proc

func lookFile(file string, env []string) (string, error) {
	if e := checkProgram(file); e != nil {
		return "", e
	}
	return file, nil
}
