// Package phrases has the sentences and the words of a weather report, in English and
// Chinese.
package phrases

// Words are the sentences of a report, with verbs for its parts in this order.
type Words struct {
	Now   string // city, condition, temperature, feels like, humidity, wind
	Day   string // date, condition, low, high, chance of rain, amount
	Stale string // time
}

// Of are the sentences in a language: Chinese for zh, else English.
func Of(language string) Words {
	if language == "zh" {
		return Words{
			Now:   "%s:现在%s,%s,体感 %s,湿度 %s,风速 %s。",
			Day:   "%s:%s,%s~%s,降水概率 %s,降水量 %s。",
			Stale: "(天气服务暂时不可用,以上是 %s 的数据)",
		}
	}
	return Words{
		Now:   "%s: now %s, %s, feels like %s, humidity %s, wind %s.",
		Day:   "%s: %s, %s to %s, chance of rain %s, amount %s.",
		Stale: "(The weather provider cannot be reached right now; this is from %s.)",
	}
}

// Conditions are the WMO weather codes that Open-Meteo uses, in English and Chinese.
var Conditions = map[int][2]string{
	0:  {"clear sky", "晴"},
	1:  {"mainly clear", "大部晴朗"},
	2:  {"partly cloudy", "多云"},
	3:  {"overcast", "阴"},
	45: {"fog", "雾"},
	48: {"rime fog", "雾凇"},
	51: {"light drizzle", "小毛毛雨"},
	53: {"drizzle", "毛毛雨"},
	55: {"dense drizzle", "浓毛毛雨"},
	56: {"light freezing drizzle", "轻冻毛毛雨"},
	57: {"freezing drizzle", "冻毛毛雨"},
	61: {"light rain", "小雨"},
	63: {"rain", "中雨"},
	65: {"heavy rain", "大雨"},
	66: {"light freezing rain", "小冻雨"},
	67: {"heavy freezing rain", "大冻雨"},
	71: {"light snow", "小雪"},
	73: {"snow", "中雪"},
	75: {"heavy snow", "大雪"},
	77: {"snow grains", "米雪"},
	80: {"light showers", "小阵雨"},
	81: {"showers", "阵雨"},
	82: {"violent showers", "强阵雨"},
	85: {"light snow showers", "小阵雪"},
	86: {"heavy snow showers", "大阵雪"},
	95: {"thunderstorm", "雷暴"},
	96: {"thunderstorm with light hail", "雷暴伴小冰雹"},
	99: {"thunderstorm with heavy hail", "雷暴伴大冰雹"},
}

// Condition is what a WMO weather code means, in Chinese for zh, else in English.
func Condition(code int, language string) string {
	texts, ok := Conditions[code]
	switch {
	case !ok && language == "zh":
		return "未知天气"
	case !ok:
		return "unknown weather"
	case language == "zh":
		return texts[1]
	}
	return texts[0]
}
